// The live strip: strip.py says what is new, this draws it and answers {ack: n} once a second.

const WINDOW_S = 30, KEPT_S = 120, KEPT_POINTS = 1200;
const GAP_S = 1.5; // points further apart are not joined
const SILENT_MS = 3000; // then not called running
const ACK_MS = 1000;
const CALM_MS = 500; // between changes of the big numbers; of all, for less motion
const SPOKEN_MS = 2000; // between announcements
const LEFT = 70, RIGHT = 52, ROW = 13; // gutters, height of a row of words
const FRAME = `<div class="top"><div class="tiles"></div><div class="tile change"><div></div><b></b></div>
    <div class="state"><div class="device"></div><span></span></div></div>
  <canvas role="img" aria-label="throughput, step interval, busy share of each lane, and the last second of each unit"></canvas>
  <div class="unseen" aria-live="polite" aria-atomic="true"></div>`;
const TILE = '<div class="tile"><div></div><b></b></div>';
const NOTHING = { n: 0, now_s: 0, lanes: [], rows: [], names: [], marks: [], label: "", tiles: [], series: ["", ""] };

/** What the page knows: one for a model, however many views show it. */
class History {
  views = new Set();
  head = NOTHING;
  points = []; // {t, rate, step, busy: {lane: share}}; NaN or undefined: not known
  slices = new Float32Array(0);
  shown = 0;
  acked = 0;
  ackedAt = -Infinity;
  heardAt = -Infinity;

  constructor(model) {
    this.model = model;
  }

  /** Points of a message are added, all else replaces what was there. */
  take(head, [points, slices]) {
    if (head.reset) this.points = [];
    else if (head.n !== this.head.n + 1) this.say({ hello: true }); // one is missing
    const values = floats(points), columns = 3 + head.lanes.length;
    for (let at = 0; at < values.length; at += columns) {
      const [t, rate, step, ...shares] = values.subarray(at, at + columns);
      this.points.push({ t, rate, step, busy: Object.fromEntries(head.lanes.map((lane, place) => [lane, shares[place]])) });
    }
    this.points = this.points.filter((point) => point.t >= head.now_s - KEPT_S).slice(-KEPT_POINTS);
    if (slices) this.slices = floats(slices);
    const { rows, names } = slices ? head : this.head;
    this.head = { ...head, rows, names };
    this.heardAt = performance.now();
    this.views.forEach((view) => view.soon());
  }

  painted() {
    this.shown = this.head.n;
    this.timer ??= setTimeout(() => this.answer(), Math.max(this.ackedAt + ACK_MS - performance.now(), 0));
  }

  answer() {
    this.timer = undefined;
    if (this.shown <= this.acked) return;
    this.ackedAt = performance.now();
    this.say({ ack: (this.acked = this.shown) });
  }

  say(message) {
    try {
      this.model.send(message);
    } catch {
      // the kernel is gone
    }
  }
}

/** One picture of a history. */
class View {
  paintedAt = -Infinity;
  tiledAt = -Infinity;
  spokenAt = -Infinity;
  timeline = document.createElement("canvas");

  constructor(history, el) {
    this.history = history;
    this.root = el.appendChild(document.createElement("div"));
    this.root.className = "labkit-strip";
    this.root.innerHTML = FRAME;
    [this.tiles, this.changeName, this.change, this.device, this.state, this.canvas, this.aloud] =
      [".tiles", ".change div", ".change b", ".device", ".state span", "canvas", ".unseen"]
        .map((part) => this.root.querySelector(part));
    this.pen = this.canvas.getContext("2d");
    this.follow();
    history.views.add(this);
  }

  /** Draw anew when size, theme or the wish for little motion changes. */
  follow() {
    const soon = () => this.soon(true), resized = new ResizeObserver(soon), themed = new MutationObserver(soon);
    const queries = ["(prefers-reduced-motion: reduce)", "(prefers-color-scheme: dark)"].map((query) => matchMedia(query));
    this.calm = queries[0];
    resized.observe(this.canvas);
    themed.observe(document.body, { attributeFilter: ["data-jp-theme-light", "data-jp-theme-name"] });
    queries.forEach((query) => query.addEventListener("change", soon));
    this.close = () => {
      this.history.views.delete(this);
      [resized, themed].forEach((watcher) => watcher.disconnect());
      queries.forEach((query) => query.removeEventListener("change", soon));
      cancelAnimationFrame(this.frame);
      clearTimeout(this.timer);
    };
  }

  /** Paint before the screen is next drawn; for less motion twice a second. */
  soon(anew) {
    if (anew) this.look = undefined;
    const wait = this.calm.matches ? this.paintedAt + CALM_MS - performance.now() : 0;
    if (wait > 0) this.wakeIn(wait);
    else this.frame ??= requestAnimationFrame(() => this.paint());
  }

  wakeIn(wait) {
    clearTimeout(this.timer);
    this.timer = setTimeout(() => this.soon(), wait);
  }

  paint() {
    this.frame = undefined;
    const { head, points } = this.history, { clientWidth: width, clientHeight: height } = this.canvas;
    if (!width || !height) return this.wakeIn(CALM_MS); // not seen, so not painted
    this.paintedAt = performance.now();
    this.write(head);
    if (this.look !== head.label) this.readColours(head);
    this.fit(width, height);
    if (head.label) this.draw(head, points.filter((point) => point.t >= head.now_s - WINDOW_S), layout(height));
    else this.text("nothing has run yet", width / 2, height / 3, this.muted, "center");
    Object.assign(this.root.dataset, { painted: (this.root.dataset.painted | 0) + 1, now: head.now_s, marks: head.marks.length });
    this.history.painted();
  }

  /** From strip.css. */
  readColours(head) {
    this.look = head.label;
    const { color, backgroundColor, borderTopColor, fontFamily } = getComputedStyle(this.root);
    [this.ink, this.page, this.line, this.family] = [color, backgroundColor, borderTopColor, fontFamily];
    [this.muted, this.accent] = [this.changeName, this.device].map((element) => getComputedStyle(element).color);
  }

  fit(width, height) {
    const scale = devicePixelRatio || 1, wide = Math.round(width * scale), high = Math.round(height * scale);
    if (this.canvas.width !== wide) this.canvas.width = wide;
    if (this.canvas.height !== high) this.canvas.height = high;
    this.scale = scale;
    [this.right, this.wide] = [width - RIGHT, width - RIGHT - LEFT];
    Object.assign(this.pen, { textBaseline: "middle", lineJoin: "round", imageSmoothingEnabled: false });
    this.pen.setTransform(scale, 0, 0, scale, 0, 0);
    this.pen.clearRect(0, 0, width, height);
  }

  /** The big numbers change twice a second at most: faster ones cannot be read. */
  write(head) {
    const now = performance.now(), until = this.history.heardAt + SILENT_MS, mark = head.marks.at(-1);
    const state = !head.label ? "" : !head.running ? "stopped" : now < until ? "running" : "no news";
    Object.assign(this.root.dataset, { simulated: Boolean(head.simulated), state });
    say(this.state, state);
    say(this.device, head.label);
    say(this.changeName, mark?.words ?? "latest change");
    say(this.change, mark ? mark.change || "…" : "–");
    if (now - this.tiledAt >= CALM_MS || !head.running) {
      this.tiledAt = now;
      const tiles = this.tiles.children;
      while (tiles.length > head.tiles.length) tiles[0].remove();
      while (tiles.length < head.tiles.length) this.tiles.insertAdjacentHTML("beforeend", TILE);
      head.tiles.forEach((words, place) => words.forEach((each, at) => say(tiles[place].children[at], each)));
    }
    clearTimeout(this.timer);
    if (state === "running") this.wakeIn(until - now + 50);
    this.announce(head.tiles, now);
  }

  /** For those who listen. */
  announce(tiles, now) {
    const event = [this.device, this.state, this.changeName, this.change].map((part) => part.textContent).join(", ");
    const wait = this.spokenAt + SPOKEN_MS - now;
    if (event === this.event) return;
    if (wait > 0) return this.wakeIn(wait);
    [this.event, this.spokenAt] = [event, now];
    say(this.aloud, [event, ...tiles.map((words) => words.join(" "))].join("; "));
  }

  draw(head, points, panes) {
    this.x = (t) => this.right + ((t - head.now_s) / WINDOW_S) * this.wide;
    this.drawRate(points, panes.rate, head.simulated);
    this.drawSteps(points, panes.step);
    [panes.rate, panes.step].forEach(({ top }, place) =>
      this.rimmed(head.series[place] + (head.simulated ? ", a prediction" : ""), LEFT + 4, top + 8, this.muted, "left"));
    this.drawLanes(points, panes.lanes, head.lanes);
    this.drawTimeline(head, panes.units);
    this.drawMarks(head, panes);
  }

  /** From 0 to a round number that shrinks late. */
  drawRate(points, pane, simulated) {
    const { pen } = this, rates = points.map((point) => point.rate), most = 1.1 * largest(rates);
    if (!(most <= this.top && most >= 0.4 * this.top)) this.top = roundAbove(most || 1);
    const y = (rate) => pane.bottom - (rate / this.top) * pane.high;
    this.ruled(pane, [0, this.top / 2, this.top], y, rates.at(-1));
    pen.setLineDash(simulated ? [6, 3] : []);
    this.area(points, (point) => point.rate, y, pane.bottom, this.accent, 0.12, 2);
    pen.setLineDash([]);
  }

  /** Logarithmic, so that a stall of a second is seen beside steps of 20 ms. */
  drawSteps(points, pane) {
    const known = points.filter((point) => point.step > 0), steps = known.map((point) => point.step);
    const low = 1 / roundAbove(steps.length ? 1 / Math.min(...steps) : 0.1), high = roundAbove(Math.max(largest(steps), 4 * low));
    const y = (step) => pane.bottom - (Math.log(step / low) / Math.log(high / low)) * pane.high;
    this.ruled(pane, [low, high], y, steps.at(-1));
    this.pen.fillStyle = this.accent;
    for (const { t, step } of known) this.pen.fillRect(this.x(t) - 1.25, y(step) - 1.25, 2.5, 2.5);
  }

  drawLanes(points, pane, lanes) {
    this.grid(pane);
    const high = pane.high / lanes.length;
    lanes.forEach((lane, place) => {
      const bottom = pane.top + (place + 1) * high, middle = bottom - high / 2, share = points.at(-1)?.busy[lane];
      this.area(points, (point) => point.busy[lane], (busy) => bottom - busy * (high - 2), bottom, this.colour(lane), 0.4, 1.25);
      this.named(lane, middle);
      this.value(share >= 0 ? `${Math.round(100 * share)} %` : "–", middle);
    });
    this.axis("busy share", ["30 s ago", "20 s", "10 s", "now"], pane.bottom);
  }

  /** A pixel for each row and column of the screen, however many slices there are. */
  drawTimeline(head, { top, bottom, high: room }) {
    const { rows } = head, { pen, timeline } = this, columns = Math.round(this.wide * this.scale);
    this.axis("last second", ["1 s ago", "0.5 s", "now"], bottom);
    if (!rows.length || columns < 1) return;
    Object.assign(timeline, { width: columns, height: rows.length });
    const image = new ImageData(columns, rows.length), colours = rows.map((row) => pixel(this.colour(row)));
    colourIn(new Uint32Array(image.data.buffer), columns, colours, this.history.slices, head.names);
    timeline.getContext("2d").putImageData(image, 0, 0);
    for (const { name, first, count, y, high } of groups(rows, top, room)) {
      for (let row = 0; row < count; row++) {
        const box = [LEFT, y + row * high, this.wide, high - Math.min(2, high / 4)];
        this.fill(this.colour(name), 0.1, box);
        pen.drawImage(timeline, 0, first + row, columns, 1, ...box);
        if (high > 11) this.named(rows[first + row], y + (row + 0.5) * high - 1);
      }
      if (high <= 11) this.named(name, y + (count * high) / 2 - 1);
    }
  }

  /** A line at each toggle, with words that never overlap. The newest is placed first, and stands out. */
  drawMarks({ marks, now_s }, { rate, lanes, units }) {
    const rows = [[], [], []];
    for (const mark of marks.filter(({ t_s }) => t_s >= now_s - WINDOW_S && t_s <= now_s).reverse()) {
      const newest = mark === marks.at(-1), at = this.x(mark.t_s), wide = newest ? 1.5 : 1;
      const from = this.place(mark, at, rows, newest) ?? rate.top, colour = newest ? this.ink : this.muted;
      const line = (x, top, bottom) => this.fill(colour, newest ? 1 : 0.6, [x - wide / 2, top, wide, bottom - top]);
      line(at, from, lanes.bottom);
      if (mark.t_s > now_s - 1) line(this.right + (mark.t_s - now_s) * this.wide, units.top, units.bottom);
    }
    for (const { words, start, y, newest } of rows.flat()) {
      this.rimmed(words, start + 3, y + 7, newest ? this.ink : this.muted, "left", newest);
    }
  }

  /** Words go left of their line, in the first row with room; if there is none without the change, or nowhere. Returns their y. */
  place({ words, change }, at, rows, newest) {
    this.font(newest);
    for (const tail of change ? [`   ${change}`, ""] : [""]) {
      let shown = words;
      const wide = () => this.pen.measureText(shown + tail).width + 8;
      while (wide() > this.wide && shown.length > 8) shown = `${shown.slice(0, -2)}…`;
      const start = Math.max(0, at - wide()), end = start + wide();
      const row = rows.findIndex((taken) => taken.every((other) => end <= other.start || start >= other.end));
      if (row < 0) continue;
      rows[row].push({ words: shown + tail, start, end, y: row * ROW, newest });
      return row * ROW;
    }
  }

  /** A pane's lines, its scale to the left, its newest value to the right. */
  ruled(pane, ticks, y, newest) {
    const inside = (at) => Math.min(Math.max(at, pane.top + 5), pane.bottom - 5);
    this.grid(pane);
    for (const tick of ticks) {
      this.fill(this.line, 0.6, [LEFT, Math.round(y(tick)), this.wide, 1]);
      this.text(inDigits(tick), LEFT - 5, inside(y(tick)), this.muted, "right");
    }
    this.value(inDigits(newest), inside(newest ? y(newest) : pane.bottom));
  }

  value(words, y) {
    this.text(words, this.right + 6, y, this.ink, "left", true);
  }

  grid({ top, high }) {
    for (const part of [0, 1, 2, 3]) this.fill(this.line, 0.6, [LEFT + (part / 3) * this.wide, top, 1, high]);
  }

  axis(name, words, bottom) {
    this.fill(this.line, 1, [LEFT, bottom, this.wide, 1]);
    this.text(name, LEFT - 5, bottom + 9, this.muted, "right");
    const last = words.length - 1, align = (at) => ["left", "center", "right"][(at > 0) + (at === last)];
    words.forEach((each, at) => this.text(each, LEFT + (at / last) * this.wide, bottom + 9, this.muted, align(at)));
  }

  /** A line through the points and the area below, with gaps where nothing is known. */
  area(points, of, y, bottom, colour, strength, lineWidth) {
    const { pen, x } = this;
    Object.assign(pen, { fillStyle: colour, strokeStyle: colour, lineWidth });
    for (const run of runs(points, of)) {
      const line = new Path2D();
      run.forEach((point) => line.lineTo(x(point.t), y(of(point))));
      pen.lineDashOffset = (run[0].t / WINDOW_S) * this.wide; // dashes move with the line
      pen.stroke(line);
      line.lineTo(x(run.at(-1).t), bottom);
      line.lineTo(x(run[0].t), bottom);
      pen.globalAlpha = strength;
      pen.fill(line);
      pen.globalAlpha = 1;
    }
  }

  fill(colour, strength, box) {
    Object.assign(this.pen, { fillStyle: colour, globalAlpha: strength });
    this.pen.fillRect(...box);
    this.pen.globalAlpha = 1;
  }

  named(name, y) {
    this.fill(this.colour(name), 1, [LEFT - 5, y - 4, 3, 8]);
    this.text(name, LEFT - 9, y, this.ink, "right");
  }

  text(words, x, y, fillStyle, textAlign, bold) {
    this.font(bold);
    Object.assign(this.pen, { textAlign, fillStyle });
    this.pen.fillText(words, x, y);
  }

  /** Words with a rim, to be read on anything: dear. */
  rimmed(words, x, y, ...look) {
    this.font(look[2]);
    Object.assign(this.pen, { textAlign: look[1], strokeStyle: this.page, lineWidth: 3 });
    this.pen.strokeText(words, x, y);
    this.text(words, x, y, ...look);
  }

  font(bold) {
    this.pen.font = `${bold ? 600 : 400} 11px ${this.family}`;
  }

  colour(name) {
    const colours = this.history.model.get("colours");
    return colours[name] ?? colours[roleOf(name)] ?? colours.host;
  }
}

function layout(height) {
  const gap = 7, axis = 16, rest = height - 3 * ROW - 2 * gap - 2 * axis - 3;
  const pane = (top, share) => ({ top, bottom: top + share * rest, high: share * rest });
  const rate = pane(3 * ROW + 3, 0.27), step = pane(rate.bottom + gap, 0.18), lanes = pane(step.bottom + gap, 0.27);
  return { rate, step, lanes, units: pane(lanes.bottom + axis, 0.28) };
}

/** Rows of one role together: many units get more room, each role enough for its name. */
function groups(rows, top, room) {
  const made = [];
  rows.forEach((row, first) => {
    if (made.at(-1)?.name === roleOf(row)) made.at(-1).count++;
    else made.push({ name: roleOf(row), first, count: 1 });
  });
  const part = room / made.reduce((sum, { count }) => sum + Math.cbrt(count), 0);
  let y = top;
  return made.map((group) => {
    const high = part * Math.cbrt(group.count);
    y += high;
    return { ...group, y: y - high, high: high / group.count };
  });
}

/** "workers 0" and "compute1" are of the roles "workers" and "compute". */
function roleOf(name) {
  return name.replace(/\s*\d+$/, "");
}

/** The points in pieces without a gap. */
function* runs(points, of) {
  let run = [];
  for (const point of points) {
    const known = Number.isFinite(of(point));
    if (run.length && (!known || point.t - run.at(-1).t > GAP_S)) yield run.splice(0);
    if (known) run.push(point);
  }
  if (run.length) yield run;
}

/** As strong as the unit is busy in a column; a second op of a row is paler than its first. */
function colourIn(pixels, columns, colours, slices, names) {
  const busy = new Float32Array(pixels.length), pale = new Uint8Array(pixels.length);
  const first = [], name = (at) => names[slices[at + 3]];
  for (let at = 0; at < slices.length; at += 4) if (!(first[slices[at]] <= name(at))) first[slices[at]] = name(at);
  for (let at = 0; at < slices.length; at += 4) {
    const row = slices[at] * columns, start = Math.max(0, (slices[at + 1] + 1) * columns);
    let end = Math.min(columns, (slices[at + 2] + 1) * columns);
    if (end - start > 5) end -= 1; // so that neighbours can be told apart
    const paler = name(at) > first[slices[at]];
    for (let column = Math.floor(start); column < end; column++) {
      busy[row + column] += Math.min(end, column + 1) - Math.max(start, column);
      pale[row + column] = paler;
    }
  }
  busy.forEach((share, at) => {
    const strength = Math.min(1, Math.max(0.3, share)) * (pale[at] ? 0.6 : 1);
    if (share) pixels[at] = colours[Math.floor(at / columns)] | (Math.round(255 * strength) << 24);
  });
}

/** A colour as a pixel without strength: red is its lowest byte. */
function pixel(colour) {
  const [red, green, blue] = colour.match(/\w\w/g).map((part) => parseInt(part, 16));
  return red | (green << 8) | (blue << 16);
}

function largest(values) {
  return Math.max(0, ...values.filter((value) => value > 0));
}

function roundAbove(value) {
  const power = 10 ** Math.floor(Math.log10(value));
  return [1, 2, 2.5, 4, 5, 10].find((part) => part * power >= value * 0.999) * power;
}

function inDigits(value) {
  if (!(value >= 0)) return "–";
  return value < 1000 ? String(+value.toPrecision(3)) : Math.round(value).toLocaleString("en").replaceAll(",", "\u202f");
}

/** A buffer as numbers; it may begin anywhere. */
function floats(view) {
  return new Float32Array(view.buffer.slice(view.byteOffset, view.byteOffset + view.byteLength));
}

function say(element, text) {
  if (element.textContent !== text) element.textContent = element.title = text;
}

/** Once for each model. */
export default () => {
  let history;
  return {
    initialize({ model }) {
      history = new History(model);
      const take = (head, buffers) => history.take(head, buffers);
      model.on("msg:custom", take);
      return () => model.off("msg:custom", take);
    },
    render({ el }) {
      const view = new View(history, el);
      history.say({ hello: true });
      return () => view.close();
    },
  };
};
