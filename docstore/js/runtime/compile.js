// Users' source text to functions, and their errors to text.
//
// Text counts as a function expression when it looks like one; anything else is the body of a function, so that
// `emit(1, 1)` and `return this.a` work as they are.

const globalEval = eval;
const SOURCE_NAME = "user";
const FUNCTION_LIKE = /^\(*\s*(?:async\s+)?(?:function\b|(?:\([^()]*\)|[A-Za-z_$][\w$]*)\s*=>)/;

function withoutComments(source) {
  let text = source.trim();
  for (;;) {
    const shorter = text.replace(/^(?:\/\/[^\n]*(?:\n|$)|\/\*[^]*?\*\/)/, "").trim();
    if (shorter === text) return text;
    text = shorter;
  }
}

function compileFunction(source) {
  const text = withoutComments(source);
  if (text === "") throw new SyntaxError("the source of a function may not be empty");
  let failure;
  if (FUNCTION_LIKE.test(text)) {
    try {
      const compiled = globalEval(`(${text.replace(/[;\s]+$/, "")}\n)\n//# sourceURL=${SOURCE_NAME}`);
      if (typeof compiled === "function") return compiled;
    } catch (thrown) {
      if (!(thrown instanceof SyntaxError)) throw thrown;
      failure = thrown; // statements may begin with a function too
    }
  }
  try {
    return globalEval(`(function(){${text}\n})\n//# sourceURL=${SOURCE_NAME}`);
  } catch (thrown) {
    throw failure ?? thrown;
  }
}

// [code, message] for whatever was thrown, worded as the server words it
function describeFailure(thrown) {
  if (thrown instanceof Refusal) return [thrown.refusalCode, thrown.message + userFrames(thrown)];
  if (thrown instanceof Error) return [139, errorText(thrown) + userFrames(thrown)];
  if (thrown !== null && (typeof thrown === "object" || typeof thrown === "function")) {
    return [139, `${textOf(thrown)} :\nundefined`];
  }
  return [8, `uncaught exception: ${textOf(thrown)}`];
}

function textOf(value) {
  try {
    return String(value);
  } catch (failure) {
    return "[object Object]";
  }
}

function errorText(error) {
  return textOf(error);
}

// Where in the user's text it happened: ` :\nname@:line:column\n` per frame, innermost first.
function userFrames(error) {
  const stack = typeof error.stack === "string" ? error.stack : "";
  let frames = "";
  for (const line of stack.split("\n")) {
    const match =
      /^\s+at (?:(?:new |async )?([^\s()]+) (?:\[as [^\]]*\] )?)?\(?(?:eval at [^]*, )?user:(\d+):(\d+)\)?$/.exec(
        line,
      );
    if (match === null) continue;
    const name = (match[1] || "").replace(/^(?:Object|global|globalThis)\./, "");
    frames += `${name === "eval" ? "" : name}@:${match[2]}:${match[3]}\n`;
  }
  return frames === "" ? "" : " :\n" + frames;
}
