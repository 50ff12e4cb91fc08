// What a user's text is: a function, an expression, or statements. V8's parser decides; nothing of the text is run.
//
// V8 gives no syntax tree. A text is put into surroundings in which only one kind of text parses. Where one pair of
// surroundings could be closed and opened again by the text itself, a second one with other brackets rules that out.

const globalEval = eval;
const FunctionConstructor = Function;
const MAX_PARSED_CHARACTERS = 1 << 26; // by one search for the last statement
const NO_EXPRESSION_STATEMENT = /^(?:\{|(?:function|class)(?![\w$])|async\s+function(?![\w$])|let\s*\[)/;
const FUNCTION_HEAD = /^function(?![\w$])(?:\s|\/\*[^]*?\*\/|\/\/[^\n]*\n)*(\*?)(?:\s|\/\*[^]*?\*\/|\/\/[^\n]*\n)*([^\s(*/]*)/;
const LINE_END = /[\n\r\u2028\u2029]/;

function isBody(text) {
  try {
    FunctionConstructor(text);
    return true;
  } catch (failure) {
    if (failure instanceof SyntaxError) return false;
    throw failure;
  }
}

// Without a `return` outside of inner functions. The text is compiled where its names are nobody's, and not reached.
const compileScript = FunctionConstructor("eval", "text", "eval(text)");

function isScript(text) {
  try {
    return compileScript(globalEval, `throw null;${text}`);
  } catch (failure) {
    return failure === null;
  }
}

function isExpression(text) {
  return isBody(`(${text}\n)`) && isBody(`[${text}\n]`);
}

// An expression without a comma outside of brackets.
function isOperand(text) {
  return isBody(`for (_ of ${text}\n);`) && isExpression(text);
}

function withoutLeadingComments(source) {
  let text = source.trim();
  for (;;) {
    const shorter = text.replace(/^(?:\/\/[^\n\r\u2028\u2029]*|\/\*[^]*?\*\/)/, "").trim();
    if (shorter === text) return text;
    text = shorter;
  }
}

// `function (a) {}`, with a name or without, and nothing after it.
function isFunctionLiteral(text) {
  const head = FUNCTION_HEAD.exec(text);
  if (head === null) return false;
  const method = `${head[1]}${head[2] || "_"}${text.slice(head[0].length)}`;
  return isBody(`({${method}\n})`) && isOperand(text);
}

// `(a) => a`, and nothing after its body.
function isArrowLiteral(text) {
  for (let arrow = text.indexOf("=>"), tries = 0; arrow >= 0 && tries < 50; tries++) {
    if (isBody(`(${text.slice(0, arrow)} => 0)`)) return isOperand(text);
    arrow = text.indexOf("=>", arrow + 2);
  }
  return false;
}

function withoutParentheses(text) {
  while (text.startsWith("(") && text.endsWith(")") && isExpression(text.slice(1, -1))) {
    text = withoutLeadingComments(text.slice(1, -1));
  }
  return text;
}

function isExpressionStatement(text) {
  return !NO_EXPRESSION_STATEMENT.test(text) && isExpression(text);
}

// The position where the last statement begins, if that is an expression; else -1. `text` is the body of a function;
// one that returns outside of inner functions says itself what its value is.
//
// Statements end with `;`, with a bracket, or where a line ends and what follows cannot continue it. The search goes
// back from the end: the first such position with something behind it is the beginning of the last statement.
function lastExpression(text) {
  if (isExpressionStatement(text)) return 0;
  if (!isScript(text)) return -1;
  let budget = MAX_PARSED_CHARACTERS;
  for (let position = text.length - 1; position > 0 && budget > 0; position--) {
    const end = text[position - 1];
    if (end !== ";" && end !== "}" && end !== ")" && !LINE_END.test(end)) continue;
    const rest = withoutLeadingComments(text.slice(position));
    if (rest === "" || rest[0] === ";") continue;
    const statements = text.slice(0, position);
    budget -= text.length;
    if (!isBody(statements) || !endsStatement(statements, rest)) continue;
    return isExpressionStatement(rest) ? position : -1;
  }
  return -1;
}

// Whether a statement ends where `statements`, which parse, end and `rest` begins.
function endsStatement(statements, rest) {
  if (isBody(`${statements} @`)) return false; // within a comment
  const text = withoutTrailingComments(statements);
  if (isBody(`${text} debugger`)) return true;
  return LINE_END.test(statements.slice(text.length)) && !isBody(`${text} ${rest}`);
}

// A text that parses, without spaces and line comments at its end.
function withoutTrailingComments(text) {
  for (;;) {
    text = text.trimEnd();
    if (!isBody(`${text} @`)) return text;
    const line = text.length - text.split(LINE_END).pop().length;
    let slashes = text.indexOf("//", line);
    while (slashes >= 0 && !isCommentAt(text, slashes)) slashes = text.indexOf("//", slashes + 1);
    if (slashes < 0) return text;
    text = text.slice(0, slashes);
  }
}

function isCommentAt(text, position) {
  const before = text.slice(0, position);
  return isBody(before) && !isBody(`${before} @`);
}
