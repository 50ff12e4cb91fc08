// The way out of the isolate: one synchronous call, with BSON in shared buffers both ways.
//
// `host` is set by Python before anything else runs. Slots of `control`: the operation, the length of what was
// written to `output`, the connection, whether any member will do; coming back: the status and the length of the
// answer in `bytes`.

const COMMAND = 1,
  CALL = 2;
const ANSWERED = 0;
const control = new Float64Array(8);
let host;

class NetworkFailure extends Error {
  constructor(message) {
    super(message);
    this.name = "Error";
  }
}

function exchange(operation, request, connection, anyMember) {
  rewind();
  writeDocument(request);
  control[0] = operation;
  control[1] = end;
  control[2] = connection;
  control[3] = anyMember ? 1 : 0;
  host();
  at = 0;
  const answer = readDocument();
  if (control[4] !== ANSWERED) throw new NetworkFailure(answer.message);
  return answer;
}

// One of Python's functions for the shell: files, the clock, connections, the terminal.
function callHost(name, ...values) {
  return exchange(CALL, { name, values }, 0, false).value;
}

function write(text) {
  callHost("write", text);
}

const printable = (value) => {
  if (typeof value === "string") return value;
  if (value === null || value === undefined) return String(value);
  return typeof value.tojson === "function" || typeof value === "object" ? tojson(value) : String(value);
};

function print(...values) {
  write(values.map(printable).join(" ") + "\n");
}

function printjson(value) {
  print(tojson(value));
}

function printjsononeline(value) {
  print(tojsononeline(value));
}

// What the prompt shows of a value that was typed.
function show(value) {
  if (value === undefined) return;
  if (
    value !== null &&
    (typeof value === "object" || typeof value === "function") &&
    typeof value.shellPrint === "function"
  ) {
    value.shellPrint();
  } else if (typeof value === "function" && !(value === MinKey || value === MaxKey)) {
    print(value.toString());
  } else {
    print(printable(value));
  }
}
