// The way out of the isolate: one synchronous call, with BSON in shared buffers both ways.
//
// `host` is set by Python before anything else runs. Slots of `control`: the operation, the length of what was
// written to `output`, the connection, whether the read preference of the command chooses the server, and the number
// of the one server that may get it (0: any); coming back: the status and the number of the server that answered.

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

function exchange(operation, request, connection, anyMember, server) {
  rewind();
  writeDocument(request);
  control[0] = operation;
  control[1] = end;
  control[2] = connection;
  control[3] = anyMember ? 1 : 0;
  control[5] = server === undefined ? 0 : server;
  host();
  at = 0;
  const answer = readDocument();
  if (control[4] !== ANSWERED) throw new NetworkFailure(answer.message);
  return answer;
}

function serverOfAnswer() {
  return control[5];
}

// One of Python's functions for the shell: files, the clock, connections, the terminal.
function callHost(name, ...values) {
  const { value } = exchange(CALL, { name, values }, 0, false);
  return value === null ? undefined : value;
}

// While a result is shown, what is printed may be coloured.
let showing = false;

function write(text) {
  callHost(showing ? "writeResult" : "write", text);
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
  showing = typeof value !== "string";
  try {
    showValue(value);
  } finally {
    showing = false;
  }
}

function showValue(value) {
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
