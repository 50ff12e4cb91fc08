# Sourced by the other scripts. Makes the scripts' own virtual environment in .venv-scripts (from setup.cfg alone, so that a
# package installed elsewhere cannot hide a missing dependency) and puts it first on PATH. Made anew when what it is made
# from has changed; sets `root`.
root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
cd "$root"

find_python() {
  local candidate
  for candidate in "${PYTHON:-}" python3 python3.14 python3.13 python3.12 python3.11; do
    if [ -n "$candidate" ] && "$candidate" -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null; then
      command -v "$candidate"
      return
    fi
  done
  echo "Python 3.11 or newer is needed; set PYTHON to its path." >&2
  return 1
}

compiled_beside() {
  # What is compiled above the kernel.
  (cd docstore/kernel/compile && "$(find_python)" -c '
from kernel_modules import COMPILED_BESIDE
print(*("docstore/" + name.replace(".", "/") + ".py" for name in COMPILED_BESIDE))')
}

make_environment() {
  local venv="$root/.venv-scripts" wanted
  wanted=$(find setup.cfg pyproject.toml docstore/bson docstore/kernel $(compiled_beside) -name '*.py' -o -name '*.cfg' -o -name '*.toml' \
    | sort | xargs cat | sha256sum)
  if [ "$(cat "$venv/made-from" 2>/dev/null)" != "$wanted" ]; then
    local python
    python=$(find_python)
    echo "setting up $venv ..." >&2
    [ -x "$venv/bin/python" ] || "$python" -m venv "$venv"
    "$venv/bin/python" -m pip install --quiet --disable-pip-version-check --editable "$root[test,fast]" >&2
    echo "$wanted" >"$venv/made-from"
  fi
  # A server starts in half the time where its modules are compiled, also where Python is told not to write such files.
  "$venv/bin/python" -m compileall -q docstore mongod mongos configsvr shell
  export PATH="$venv/bin:$PATH" VIRTUAL_ENV="$venv" PYTHONPATH="$root"
}

make_environment
