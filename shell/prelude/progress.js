// How far a long loop of commands has come, told to the terminal when it takes a while.

const PROGRESS_DELAY = 500,
  PROGRESS_PAUSE = 200;

class Progress {
  constructor(what, total) {
    Object.assign(this, { what, total, shown: false, next: Date.now() + PROGRESS_DELAY });
  }
  reached(done) {
    const now = Date.now();
    if (now < this.next || done >= this.total) return;
    callHost("progress", this.what, done, this.total);
    this.shown = true;
    this.next = now + PROGRESS_PAUSE;
  }
  end() {
    if (this.shown) callHost("progress", "", 0, 0);
  }
}
