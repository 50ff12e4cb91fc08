// Names that scripts of the shell expect besides those of server-side functions.

// A generator whose numbers follow from its seed.
const Random = {
  state: 1,
  srand(seed) {
    Random.state = Number(seed) >>> 0;
    return Random.state;
  },
  setRandomSeed(seed) {
    return Random.srand(seed === undefined ? Date.now() : seed);
  },
  rand() {
    Random.state = (Random.state + 0x6d2b79f5) >>> 0;
    let mixed = Math.imul(Random.state ^ (Random.state >>> 15), Random.state | 1);
    mixed ^= mixed + Math.imul(mixed ^ (mixed >>> 7), mixed | 61);
    return ((mixed ^ (mixed >>> 14)) >>> 0) / TWO_32;
  },
  randInt(low, high) {
    const [from, to] = high === undefined ? [0, low] : [low, high];
    return from + Math.floor(Random.rand() * (to - from));
  },
  genExp(mean) {
    return -mean * Math.log(1 - Random.rand());
  },
  genNormal(mean, deviation) {
    const radius = Math.sqrt(-2 * Math.log(1 - Random.rand()));
    return mean + deviation * radius * Math.cos(2 * Math.PI * Random.rand());
  },
};

hide(Array, {
  shuffle(array) {
    for (let i = array.length - 1; i > 0; i--) {
      const other = Random.randInt(i + 1);
      [array[i], array[other]] = [array[other], array[i]];
    }
    return array;
  },
  fetchRefs: (array, collection) =>
    array.filter((item) => collection === undefined || item.getRef() === collection).map((item) => item.fetch()),
});
hide(DBRefBody.prototype, {
  fetch() {
    const database = this.$db === undefined ? currentDatabase() : currentDatabase().getSiblingDB(this.$db);
    return database.getCollection(this.$ref).findOne({ _id: this.$id });
  },
});
hide(Date, {
  // Milliseconds that `times` calls take.
  timeFunc(body, times, ...parameters) {
    const started = Date.now();
    for (let i = 0; i < (times || 1); i++) body(...parameters);
    return Date.now() - started;
  },
});
hide(Math, { sigFig: (value, digits) => Number(Number(value).toPrecision(digits === undefined ? 3 : digits)) });

function sortDoc(document) {
  return sortedFields(document);
}

function setVerboseShell(on) {
  shellState.verbose = on !== false;
}

const FILES = {
  cat: (path) => callHost("read", String(path)),
  pwd: () => callHost("pwd"),
  cd: (path) => callHost("cd", String(path)),
  ls: (path) => callHost("ls", path === undefined ? "." : String(path)),
  listFiles: (path) => callHost("files", path === undefined ? "." : String(path)),
  mkdir: (path) => callHost("mkdir", String(path)),
  writeFile: (path, text) => callHost("writeFile", String(path), String(text)),
  copyFile: (from, to) => callHost("copyFile", String(from), String(to)),
  removeFile: (path) => callHost("removeFile", String(path)),
  md5sumFile: (path) => callHost("md5", String(path)),
};
