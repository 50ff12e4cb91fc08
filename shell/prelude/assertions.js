// `assert.*`: what scripts check with, beside `assert`, `assert.eq`, `assert.neq` and `assert.throws`, which functions
// on the server have too.

const ASSERT_TIMEOUT = 30000,
  ASSERT_INTERVAL = 200;

// The end of a failure's text: why, where the caller says so.
const because = (message) => {
  if (message === undefined) return "";
  const text = typeof message === "function" ? message() : message;
  return ` : ${text !== null && typeof text === "object" ? tojson(text) : text}`;
};

function ordered(test, word) {
  return (a, b, message) => {
    if (!test(compareValues(a, b))) fail(`${tojson(a)} is not ${word} ${tojson(b)}${because(message)}`);
  };
}

function within(low, value, high, inclusive, message) {
  const inside = inclusive ? low <= value && value <= high : low < value && value < high;
  if (!inside) fail(`${tojson(value)} is not between ${tojson(low)} and ${tojson(high)}${because(message)}`);
}

const sortedFields = (value) => {
  if (Array.isArray(value)) return value.map(sortedFields);
  if (value === null || typeof value !== "object" || Object.getPrototypeOf(value) !== Object.prototype) return value;
  return Object.fromEntries(
    Object.keys(value)
      .sort(compareText)
      .map((name) => [name, sortedFields(value[name])]),
  );
};

const equalDocuments = (a, b) => compareValues(sortedFields(a), sortedFields(b)) === 0;

function outcomeOf(body, parameters) {
  try {
    body.apply(null, parameters || []);
  } catch (failure) {
    return { failure };
  }
  return {};
}

// Whether a reply, a result of a write or an error says that all went well, and its codes.
function judged(result) {
  if (result instanceof WriteResult)
    return { worked: !result.hasWriteError() && !result.hasWriteConcernError(), codes: writeCodes(result.tally) };
  if (result instanceof BulkWriteResult)
    return { worked: !result.hasWriteErrors() && !result.hasWriteConcernError(), codes: writeCodes(result.tally) };
  if (result instanceof BulkWriteError) return { worked: false, codes: writeCodes(result.result) };
  if (result instanceof Error) return { worked: false, codes: result.code === undefined ? [] : [result.code] };
  if (result !== null && typeof result === "object" && result.acknowledged !== undefined)
    return { worked: true, codes: [] };
  if (result === null || typeof result !== "object" || result.ok === undefined)
    return fail(`not the reply of a command: ${tojson(result)}`);
  const failures = [...(result.writeErrors || []), ...(result.writeConcernError ? [result.writeConcernError] : [])];
  if (result.code !== undefined) failures.push(result);
  return { worked: Boolean(result.ok) && !failures.length, codes: failures.map((failure) => failure.code) };
}

const writeCodes = (tally) => [...tally.writeErrors, ...tally.writeConcernErrors].map((failure) => failure.code);

const shownOutcome = (result) => (result instanceof Error ? String(result) : tojson(result));

function worked(result, message) {
  if (!judged(result).worked) {
    const failure = result instanceof Error ? result : undefined;
    throw new MongoServerError(`command failed: ${shownOutcome(result)}${because(message)}`, failure || result);
  }
  return result;
}

function failedWith(result, expected, message) {
  const { worked: well, codes } = judged(result);
  if (well) fail(`command worked when it should have failed: ${shownOutcome(result)}${because(message)}`);
  const allowed = expected === undefined ? undefined : [].concat(expected);
  if (allowed !== undefined && !codes.some((code) => allowed.includes(code)))
    fail(`command did not fail with ${tojson(allowed)}: ${shownOutcome(result)}${because(message)}`);
  return result;
}

// Ask again and again until it is true.
function soon(condition, message, timeout, interval, onFailure) {
  const last = Date.now() + (timeout === undefined ? ASSERT_TIMEOUT : timeout);
  const test = typeof condition === "string" ? () => globalEval(condition) : condition;
  while (!test()) {
    if (Date.now() > last) {
      if (onFailure !== undefined) onFailure();
      fail(`assert.soon failed: ${condition}${because(message)}`);
    }
    callHost("sleep", interval === undefined ? ASSERT_INTERVAL : interval);
  }
}

function retry(condition, message, attempts, interval) {
  for (let left = attempts; left > 0; left--) {
    if (condition()) return;
    if (left > 1) callHost("sleep", interval || 0);
  }
  fail(`assert.retry failed after ${attempts} attempts${because(message)}`);
}

const quietly = (condition) => () => {
  try {
    return condition();
  } catch (failure) {
    return false;
  }
};

hide(assert, {
  lt: ordered((order) => order < 0, "less than"),
  lte: ordered((order) => order <= 0, "less than or equal to"),
  gt: ordered((order) => order > 0, "greater than"),
  gte: ordered((order) => order >= 0, "greater than or equal to"),
  between(low, value, high, message, inclusive) {
    within(low, value, high, inclusive === undefined || inclusive === true, message);
  },
  betweenIn(low, value, high, message) {
    within(low, value, high, true, message);
  },
  betweenEx(low, value, high, message) {
    within(low, value, high, false, message);
  },
  // Equal to so many decimal places, four unless told.
  close(a, b, message, places) {
    const digits = places === undefined ? 4 : places;
    if (!(Math.abs(a - b) <= Math.pow(10, -digits) * Math.max(1, Math.abs(a), Math.abs(b))))
      fail(`${a} is not close to ${b}${because(message)}`);
  },
  closeWithinMS(a, b, message, milliseconds) {
    const allowed = milliseconds === undefined ? 1000 : milliseconds;
    if (Math.abs(a - b) > allowed) fail(`${a} is not within ${allowed} ms of ${b}${because(message)}`);
  },
  contains(value, list, message) {
    if (!list.some((item) => compareValues(item, value) === 0))
      fail(`${tojson(value)} is not in ${tojson(list)}${because(message)}`);
  },
  containsPrefix(prefix, list, message) {
    if (!list.some((item) => String(item).startsWith(prefix)))
      fail(`${tojson(prefix)} begins nothing in ${tojson(list)}${because(message)}`);
  },
  includes(text, part, message) {
    if (!text.includes(part)) fail(`${tojson(part)} is not in ${tojson(text)}${because(message)}`);
  },
  docEq(expected, actual, message) {
    if (!equalDocuments(expected, actual))
      fail(`expected ${tojson(expected)} and actual ${tojson(actual)} are not equal${because(message)}`);
  },
  setEq(expected, actual, message) {
    const same = expected.size === actual.size && [...expected].every((item) => actual.has(item));
    if (!same) fail(`expected ${tojson([...expected])} and actual ${tojson([...actual])} differ${because(message)}`);
  },
  sameMembers(first, second, message) {
    const left = [...second];
    const found = first.every((item) => {
      const place = left.findIndex((other) => equalDocuments(item, other));
      if (place >= 0) left.splice(place, 1);
      return place >= 0;
    });
    if (!found || left.length)
      fail(`${tojson(first)} and ${tojson(second)} differ in their members${because(message)}`);
  },
  hasFields(document, names, message) {
    const missing = names.filter((name) => !(name in document));
    if (missing.length) fail(`not all of the fields ${tojson(names)} are in ${tojson(document)}${because(message)}`);
  },
  isnull(value, message) {
    if (value !== null && value !== undefined) fail(`supposed to be null: ${tojson(value)}${because(message)}`);
  },
  doesNotThrow(body, parameters, message) {
    const { failure } = outcomeOf(body, parameters);
    if (failure !== undefined) fail(`threw an exception it should not have: ${failure}${because(message)}`);
  },
  throwsWithCode(body, expected, parameters, message) {
    const { failure } = outcomeOf(body, parameters);
    if (failure === undefined) fail(`did not throw an exception${because(message)}`);
    if (![].concat(expected).includes(failure.code))
      fail(`threw ${failure}, not code ${tojson(expected)}${because(message)}`);
    return failure;
  },
  dropExceptionsWithCode(body, dropped, onDrop) {
    const { failure } = outcomeOf(body);
    if (failure === undefined) return undefined;
    if (![].concat(dropped).includes(failure.code)) throw failure;
    return onDrop(failure);
  },
  soon,
  soonNoExcept: (condition, ...rest) => soon(quietly(condition), ...rest),
  retry,
  retryNoExcept: (condition, ...rest) => retry(quietly(condition), ...rest),
  time(body, message, timeout) {
    const started = Date.now();
    const value = typeof body === "string" ? globalEval(body) : body();
    const took = Date.now() - started;
    if (took > (timeout === undefined ? ASSERT_TIMEOUT : timeout)) fail(`took ${took} ms${because(message)}`);
    return value;
  },
  automsg(condition) {
    assert(globalEval(condition), condition);
  },
  commandWorked: worked,
  commandWorkedIgnoringWriteErrors(result, message) {
    return result.ok === undefined ? result : result.ok ? result : worked(result, message);
  },
  commandFailed: (result, message) => failedWith(result, undefined, message),
  commandFailedWithCode: failedWith,
  commandWorkedOrFailedWithCode(result, expected, message) {
    return judged(result).worked ? result : failedWith(result, expected, message);
  },
  writeOK: worked,
  writeError: (result, message) => failedWith(result, undefined, message),
  writeErrorWithCode: failedWith,
});
