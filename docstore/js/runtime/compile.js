// Users' source text to functions, and their errors to text.
//
// A text that is a function literal is that function. Anything else is the body of a function, which gives the value of
// its last statement where that is an expression: `emit(1, 1)`, `return this.a` and `var x = this.a; x > 1` are good.

const SOURCE_NAME = "user";

function evaluated(text) {
  return globalEval(`(${text}\n)\n//# sourceURL=${SOURCE_NAME}`);
}

// A function that takes arguments; an arrow function is one, and so is a function in parentheses.
function compileFunction(source) {
  const literal = withoutParentheses(statementsOf(source));
  return isArrowLiteral(literal) || isFunctionLiteral(literal) ? evaluated(literal) : compileCondition(source);
}

// A function that is asked about `this`: of literals only the word `function` makes one, others are values.
function compileCondition(source) {
  const text = statementsOf(source);
  if (isFunctionLiteral(text)) return evaluated(text);
  if (!isBody(text)) {
    if (isExpression(text)) {
      if (/^function(?![\w$])/.test(text)) return madeFunction(text);
      if (text[0] !== "{") return evaluated(`function(){return (${text}\n)}`);
    }
    if (isBody(source)) return evaluated(`function(){${source}\n}`); // `while (false);`
    globalEval(`(function(){${text}\n})`); // what is wrong with it is said here
    throw new SyntaxError("unbalanced brackets");
  }
  const last = lastExpression(text);
  if (last < 0) return evaluated(`function(){${text}\n}`);
  return evaluated(`function(){${text.slice(0, last)}return (${text.slice(last)}\n)}`);
}

// What an expression makes that begins with a function: it has to be a function itself. It is made by the first call.
function madeFunction(text) {
  let made;
  return function () {
    if (made === undefined) made = evaluated(text);
    if (typeof made !== "function") throw new Refusal(10232, "not a function");
    return Reflect.apply(made, this, arguments);
  };
}

function statementsOf(source) {
  const text = withoutLeadingComments(source).replace(/[;\s]+$/, "");
  if (text === "") throw new SyntaxError("the source of a function may not be empty");
  return text;
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
