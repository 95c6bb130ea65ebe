// The controls of the panel. They show the state that Python holds, and send what people do as numbered commands,
// {do, seq, …}. A part is {node, <trait>(value)}: what it looks like, and how it takes each trait that it shows.

const RATE_MS = 50; // a slider sends at most 20 commands a second
const PATIENCE_MS = 2000; // a command that nobody has heard for so long and longer waits for a cell to end
const TRAITS = ["values", "status", "monitor", "alerts", "guess"];
const PARTS = [header, choosers, buttons, messages, sideA, knobs, machine, predict, alsoShow, stored, copyAs, monitor];

function render({ model, el }) {
  const sender = new Sender(model);
  const uid = `labkit-${Math.random().toString(36).slice(2, 10)}`;
  const root = h("div", { class: "labkit-controls", role: "group" });
  let parts = [];

  const show = (trait) => parts.forEach((part) => part[trait]?.(model.get(trait)));
  const heard = () => model.get("values").seq >= sender.held && show("values");
  const build = () => {
    const spec = model.get("spec");
    parts = PARTS.map((part) => part({ spec, sender, id: (name) => `${uid}-${name}` }));
    root.setAttribute("aria-label", `controls of ${spec.experiment}`);
    root.replaceChildren(busy, ...parts.map((part) => part.node));
    parts.push({ status: ({ phase }) => (root.dataset.phase = phase) });
    TRAITS.forEach(show);
  };
  const ignored = (message) => {
    sender.ignored = Math.max(sender.ignored, message.ignored ?? 0);
    if (message.ignored === sender.held) ((sender.held = 0), show("values"));
  };
  const busy = h("p", { class: "lk-busy", role: "status", hidden: true }, "Nobody has heard yet what you asked for: the kernel is busy with a cell, or gone (then run the panel's cell again).");
  let late = false;
  const patience = setInterval(() => {
    const unheard = Math.max(model.get("values").seq, sender.ignored) < sender.seq;
    busy.hidden = !(unheard && late);
    late = unheard;
  }, PATIENCE_MS);

  const listeners = [["change:spec", build], ["change:values", heard], ["msg:custom", ignored],
    ...TRAITS.slice(1).map((trait) => [`change:${trait}`, () => show(trait)])];
  listeners.forEach(([event, act]) => model.on(event, act));
  root.addEventListener("keydown", keepKeys);
  root.addEventListener("keyup", ({ key }) => /Tab|Escape/.test(key) && root.classList.toggle("lk-keys", key === "Tab"));
  root.addEventListener("pointerdown", () => root.classList.remove("lk-keys"));
  build();
  el.append(root);
  return () => {
    sender.flush();
    clearInterval(patience);
    listeners.forEach(([event, act]) => model.off(event, act));
  };
}

/** A notebook in command mode takes single keys: keep ours, but for Escape and shortcuts with Ctrl or Cmd. */
function keepKeys(event) {
  if (event.key !== "Escape" && !event.ctrlKey && !event.metaKey) event.stopPropagation();
}

/** Numbers the commands and sends them in order; of a slider's at most 20 a second, and the last one always. */
class Sender {
  constructor(model) {
    this.model = model;
    this.seq = 0;
    this.held = 0; // older values than those that have heard of this command do not overwrite what the user has set
    this.ignored = 0; // the last one that Python could not read
    this.sentAt = -Infinity;
  }

  /** Send at once. `holds`: the user has set a value. */
  now(command, holds) {
    this.flush();
    this.model.send(this.numbered(command, holds));
  }

  /** Send soon; of several commands of one key the last. */
  soon(key, command) {
    if (key !== this.key) this.flush();
    this.key = key;
    this.waiting = this.numbered(command, true);
    this.timer ??= setTimeout(() => this.flush(), Math.max(0, this.sentAt + RATE_MS - performance.now()));
  }

  flush() {
    clearTimeout(this.timer);
    const command = this.waiting;
    this.timer = this.waiting = undefined;
    if (!command) return;
    this.sentAt = performance.now();
    this.model.send(command);
  }

  numbered(command, holds) {
    this.seq = Math.max(this.seq, this.model.get("values").seq) + 1; // another view may have counted on
    if (holds) this.held = this.seq;
    return { ...command, seq: this.seq };
  }
}

// ---- parts ----

function header({ spec }) {
  const badge = h("span", { class: "lk-badge" });
  const phase = h("strong", { role: "status" });
  const words = h("span", { class: "lk-muted" });
  const progress = h("progress", { max: 1, "aria-label": "progress of Measure A/B" });
  const node = h("header", { class: "lk-head" },
    h("strong", { class: "lk-name" }, spec.experiment), badge,
    h("span", { class: "lk-phase" }, h("span", { class: "lk-dot", "aria-hidden": "true" }), phase, words), progress,
    h("p", { class: "lk-clip lk-muted", title: spec.question }, spec.question));
  const status = (now) => {
    setText(badge, now.label);
    badge.classList.toggle("lk-simulated", now.simulated);
    setText(phase, now.phase);
    setText(words, now.words);
    progress.hidden = now.share === null;
    progress.value = now.share ?? 0;
  };
  return { node, status };
}

function choosers(page) {
  const { spec, sender } = page;
  const group = (label, simulated) => h("optgroup", { label }, ...spec.devices.filter((one) => one.simulated === simulated)
    .map(({ name, words, available, reason }) => h("option", { value: name, disabled: !available, title: reason }, words)));
  const device = select(page, "device", group("measured", false), group("simulated", true));
  const preset = select(page, "preset", h("option", { value: "", disabled: true }, "–"),
    ...spec.presets.map(({ name, words }) => h("option", { value: name, title: words }, name)));
  device.addEventListener("change", () => sender.now({ do: "device", name: device.value }, true));
  preset.addEventListener("change", () => sender.now({ do: "preset", name: preset.value }));
  const inForce = (knobs) => (preset) => Object.entries(preset.knobs).every(([name, value]) => knobs[name] === value);
  const values = (now) => {
    device.value = now.device;
    preset.value = spec.presets.findLast(inForce(now.knobs))?.name ?? "";
  };
  return { node: h("div", { class: "lk-choosers" }, field("device", device), field("preset", preset)), values };
}

function buttons(page) {
  const { sender } = page;
  const all = { run: "Run", stop: "Stop", pin: "Pin as A", compare: "Measure A/B", reset: "Reset" };
  const [run, stop, ...others] = Object.keys(all).map((what) => asks(page, what, all[what]));
  const seconds = [5, 10, 30, null];
  const option = (s) => h("option", { value: String(s) }, s === null ? "until Stop" : `${s} s`);
  const runFor = select(page, "run_for", ...seconds.map(option));
  runFor.addEventListener("change", () => sender.now({ do: "run_for", seconds: seconds[runFor.selectedIndex] }, true));
  return {
    node: h("div", { class: "lk-buttons" }, run, stop, field("run for", runFor), ...others),
    status: ({ can }) => [run, stop, ...others].forEach((node) => node.setAttribute("aria-disabled", !can[node.dataset.do])),
    values({ run_for }) {
      if (!seconds.includes(run_for)) seconds.unshift(run_for), runFor.prepend(option(run_for));
      runFor.selectedIndex = seconds.indexOf(run_for);
    },
  };
}

/** Two regions that are there from the start: a screen reader speaks up when their words change. */
function messages() {
  const calm = h("div", { role: "status" });
  const alert = h("div", { role: "alert" });
  const show = onChange((message) => {
    calm.replaceChildren();
    alert.replaceChildren();
    if (message) (message.level === "error" ? alert : calm).append(said("div", message));
  });
  return { node: h("div", { class: "lk-messages" }, calm, alert), status: (now) => show(now.message) };
}

function sideA(page) {
  const words = h("span", { class: "lk-clip" });
  const node = h("div", { class: "lk-line" }, h("strong", {}, "A"), words, asks(page, "unpin", "Unpin"));
  const status = ({ a }) => {
    node.hidden = a === null;
    setText(words, (words.title = a ?? ""));
  };
  return { node, status };
}

function knobs({ spec, sender, id }) {
  const rows = spec.knobs.map((knob) => [knob, row(knob, knob.name, id(`knob-${knob.name}`), (value, slides) => {
    const command = { do: "turn", knob: knob.name, value };
    slides ? sender.soon(knob, command) : sender.now(command, true);
  })]);
  const group = (cold, ...legend) => {
    const nodes = rows.flatMap(([knob, { node }]) => (knob.cold === cold ? node : []));
    return nodes.length && h("fieldset", {}, h("legend", {}, ...legend), h("div", { class: "lk-rows" }, ...nodes));
  };
  const values = (now) => rows.forEach(([{ name, default: usual }, { node, put, disable }]) => {
    put(name in now.knobs ? now.knobs[name] : usual);
    disable(now.inert[name] ?? "");
    node.classList.toggle("lk-cold", now.cold.includes(name));
  });
  return { node: h("div", {}, group(false, "live knobs"), group(true, "cold knobs ", h("small", {}, "❄\uFE0E restart the worker"))), values };
}

function machine(page) {
  const { spec, sender, id } = page;
  const link = select(page, "link", h("option", { value: "", disabled: true }, "–"),
    ...spec.machine_presets.map(({ name, words }) => h("option", { value: name, title: words }, name)));
  link.addEventListener("change", () => sender.now({ do: "machine_preset", name: link.value }));
  const rows = spec.machine.map((figure) => {
    const send = (value) => sender.soon(figure, { do: "machine", figure: figure.name, value: value * figure.scale });
    return [figure, row(figure, figure.label, id(figure.name), send)];
  });
  const node = details("Simulated machine", spec.help.machine, h("div", { class: "lk-choosers" }, field("typical links", link)),
    h("div", { class: "lk-rows" }, ...rows.map(([, { node }]) => node)));
  node.open = true;
  const values = (now) => {
    node.hidden = !spec.devices.some(({ name, simulated }) => simulated && name === now.device);
    const inForce = ({ figures }) => Object.entries(figures).every(([figure, value]) => now.machine[figure] === value);
    link.value = spec.machine_presets.find(inForce)?.name ?? "";
    rows.forEach(([{ name, scale }, { put, disable }]) => {
      const value = now.machine[name] ?? null;
      put(value === null ? null : Number((value / scale).toPrecision(4)));
      disable(name in now.machine ? "" : "this machine does not give it");
    });
  };
  return { node, values };
}

function predict(page) {
  const { spec, sender, id } = page;
  const ratio = h("input", { type: "number", id: id("ratio"), name: "ratio", min: 0.1, step: 0.1, value: 1 });
  const bottleneck = select(page, "bottleneck",
    ...spec.bottlenecks.map((name) => h("option", { value: name }, `${name} – ${spec.help[name]}`)));
  const form = h("form", { novalidate: true }, h("span", {}, h("label", { for: ratio.id }, "B is"), ratio, "× as fast as A"),
    field("bottleneck of B", bottleneck), h("button", { "data-do": "guess", title: spec.help.guess }, "Commit"));
  const words = h("span");
  const committed = h("div", { class: "lk-line" }, words, asks(page, "clear_guess", "Clear"));
  const node = details("Predict first", spec.help.guess, form, committed);
  form.addEventListener("submit", (event) => {
    event.preventDefault();
    ratio.toggleAttribute("aria-invalid", !(ratio.value > 0));
    if (ratio.value > 0) sender.now({ do: "guess", ratio: Number(ratio.value), bottleneck: bottleneck.value });
  });
  const guess = (now) => {
    form.hidden = Boolean(now?.committed);
    committed.hidden = !form.hidden;
    node.open ||= form.hidden;
    if (!now) return;
    setText(words, `You say: B is ${now.ratio}× as fast as A, held back by ${now.bottleneck}.`);
    ratio.value = now.ratio;
    bottleneck.value = now.bottleneck;
  };
  return { node, guess };
}

function alsoShow({ spec, sender, id }) {
  const boxes = spec.views.map(({ name, words, help }) => {
    const box = h("input", { type: "checkbox", id: id(`view-${name}`), name: `view ${name}` });
    box.addEventListener("change", () => sender.now({ do: "view", name, on: box.checked }, true));
    return { name, box, label: h("label", { for: box.id, title: help }, box, ` ${words}`) };
  });
  const node = details("Also show", spec.help.view, h("div", { class: "lk-views" }, ...boxes.map(({ label }) => label)));
  const values = ({ views }) => {
    boxes.forEach(({ name, box }) => (box.checked = views.includes(name)));
    node.open ||= views.length > 0;
  };
  return { node, values };
}

function stored(page) {
  const runs = select(page, "stored");
  const take = asks(page, "pin_stored", "Use as A", () => ({ id: runs.value }));
  const node = details("Stored runs", page.spec.help.stored, h("div", { class: "lk-line" }, field("run", runs), take));
  const fill = onChange((list) => {
    const chosen = runs.value;
    runs.replaceChildren(...list.map((run) => h("option", { value: run.id, selected: run.id === chosen }, run.words)));
    node.hidden = !list.length;
  });
  return { node, status: (now) => fill(now.stored) };
}

function copyAs(page) {
  const form = select(page, "copy");
  const text = h("textarea", { readonly: true, rows: 3, "aria-label": "text to copy" });
  const outcome = h("span", { role: "status", class: "lk-muted" });
  const copy = button("Copy", { "data-do": "copy" }, async () => {
    try {
      await navigator.clipboard.writeText(text.value);
      outcome.textContent = "copied";
    } catch { // no permission, or a page without https
      text.select();
      outcome.textContent = "selected: press Ctrl+C";
    }
  });
  const node = details("Copy as", page.spec.help.copy, h("div", { class: "lk-line" }, field("as", form), copy, outcome), text);
  const show = () => {
    text.value = form.value;
    outcome.textContent = "";
  };
  form.addEventListener("change", show);
  const fill = onChange((texts) => {
    const chosen = Math.max(0, form.selectedIndex);
    form.replaceChildren(...Object.entries(texts).map(([name, value]) => h("option", { value }, name)));
    form.selectedIndex = chosen;
    node.hidden = !form.length;
    show();
  });
  return { node, status: (now) => fill(now.copy) };
}

function monitor() {
  const dials = h("dl", { class: "lk-dials" });
  const list = h("ul", { class: "lk-alerts", role: "status" });
  let shown = [];
  const dial = ({ label, text, reason, level }) => {
    const why = text === null && h("span", { class: "lk-unseen" }, reason);
    return h("div", { class: "lk-dial", "data-level": level, title: why ? `${label}: ${reason}` : label },
      h("dt", {}, label), h("dd", {}, text ?? "—", why, level && level !== "ok" && h("small", {}, level)));
  };
  const readings = (now) => {
    const keys = now.map((reading) => JSON.stringify(reading));
    const nodes = now.map((reading, at) => (keys[at] === shown[at] ? dials.children[at] : dial(reading)));
    if (keys.join() !== shown.join()) dials.replaceChildren(...nodes);
    shown = keys;
  };
  const alerts = onChange((now) => list.replaceChildren(...now.map((alert) => said("li", alert))));
  return { node: h("section", { "aria-label": "monitor" }, dials, list), monitor: readings, alerts };
}

// ---- one row: a label, a control, a unit ----

/** control: name, kind, help, allowed, unit, and what its kind needs. Gives {node, put(value), disable(reason)}. */
function row(control, words, id, send) {
  const help = `${control.help}. Allowed: ${control.allowed} ${control.unit}`.trim();
  const note = h("p", { class: "lk-note", id: `${id}-note` });
  const { nodes, put } = { slider, number, choice, switch: onOff, text }[control.kind](control, id, send, note);
  const node = h("div", { class: "lk-row", "data-kind": control.kind, title: help },
    h("span", { class: "lk-label" }, h("label", { for: id }, words)), h("span", { class: "lk-input" }, ...nodes),
    h("span", { class: "lk-unit" }, control.unit), h("span", { class: "lk-help", id: `${id}-help` }, help), note);
  nodes.forEach((input) => input.setAttribute("aria-describedby", `${id}-help ${id}-note`));
  const disable = onChange((reason) => {
    nodes.forEach((input) => (input.disabled = Boolean(reason)));
    setText(note, reason);
  });
  return { node, put, disable };
}

function slider(control, id, send, note) {
  const stops = control.stops?.length ? control.stops : null;
  const { min, max, step } = stops ? { min: 0, max: stops.length - 1, step: 1 } : control;
  const range = h("input", { type: "range", id, name: control.name, min, max, step });
  const exact = numberField(control, { name: `${control.name}.number`, "aria-label": `${control.name} as a number` });
  const put = (value) => {
    type(value);
    range.value = stops ? stops.findLastIndex((stop) => stop <= value) : value;
    range.setAttribute("aria-valuetext", `${asText(value)} ${control.unit}`);
  };
  const turn = (value) => {
    put(value);
    send(value, true);
  };
  const type = typed(exact, note, control.allowed, (text) => turn(Number(text)));
  range.addEventListener("input", () => turn(stops ? stops[range.value] : Number(range.value)));
  return { nodes: [range, exact], put };
}

function number(control, id, send, note) {
  const input = numberField(control, { id, name: control.name });
  const type = typed(input, note, control.allowed, (text) => send(text === "" ? null : Number(text)));
  const times = (factor) => {
    const next = control.whole ? Math.floor(input.value * factor) : input.value * factor;
    const value = Math.min(control.max ?? Infinity, Math.max(control.min, next));
    type(value);
    send(value);
  };
  const by = (words, said, factor) => button(words, { "aria-label": `${control.name} ${said}` }, () => times(factor));
  const nodes = control.doubles ? [input, by("÷2", "halved", 0.5), by("×2", "doubled", 2)] : [input];
  return { nodes, put: type };
}

function text({ name, optional, allowed }, id, send, note) {
  const input = h("input", { type: "text", id, name, placeholder: optional && "none", spellcheck: "false" });
  const type = typed(input, note, allowed, (words) => send(optional && !words.trim() ? null : words));
  return { nodes: [input], put: type };
}

function choice({ name, choices }, id, send) {
  const list = h("select", { id, name }, ...choices.map((value) => h("option", {}, String(value ?? "none"))));
  list.addEventListener("change", () => send(choices[list.selectedIndex]));
  return { nodes: [list], put: (value) => (list.selectedIndex = choices.indexOf(value)) };
}

function onOff({ name }, id, send) {
  const box = h("input", { type: "checkbox", role: "switch", id, name });
  box.addEventListener("change", () => send(box.checked));
  return { nodes: [box], put: (value) => (box.checked = value) };
}

function numberField({ min, max, whole, optional }, more) {
  return h("input", { type: "number", min, max, step: whole ? 1 : "any", required: !optional, placeholder: optional && "none", ...more });
}

/** A field that is typed into. What is half typed is neither sent nor overwritten; Escape takes it back. Gives put(value). */
function typed(input, note, allowed, send) {
  let typing = false;
  let inForce = "";
  const put = (value) => {
    inForce = asText(value);
    if (typing) return;
    if (input.value !== inForce) input.value = inForce;
    if (input.hasAttribute("aria-invalid")) setText(note, "");
    input.removeAttribute("aria-invalid");
  };
  input.addEventListener("input", () => (typing = true));
  input.addEventListener("blur", () => (typing = false));
  input.addEventListener("keydown", ({ key }) => key === "Escape" && ((typing = false), put(inForce)));
  input.addEventListener("change", () => {
    typing = false;
    if (input.checkValidity()) return put(input.value), send(input.value);
    input.setAttribute("aria-invalid", "true");
    setText(note, `${input.value || "this"} is not allowed; allowed: ${allowed}. Still ${inForce}.`);
  });
  return put;
}

// ---- elements ----

/** An element with attributes (true: without a value; false, null: left out) and children (false, 0, null: left out). */
function h(tag, attributes = {}, ...children) {
  const node = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) {
    if (value !== false && value != null) node.setAttribute(name, value === true ? "" : value);
  }
  node.append(...children.filter(Boolean));
  return node;
}

/** A button. One that is not allowed keeps its focus, which a disabled one would lose. */
function button(words, attributes, act) {
  const node = h("button", { type: "button", ...attributes }, words);
  node.addEventListener("click", (event) => node.getAttribute("aria-disabled") !== "true" && act(event));
  return node;
}

/** A button that sends a command, once for a double click (a second Stop would kill); `more` gives its other fields. */
function asks({ spec, sender }, what, words, more) {
  return button(words, { "data-do": what, title: spec.help[what] }, ({ detail }) => detail < 2 && sender.now({ do: what, ...more?.() }));
}

function select({ spec, id }, name, ...options) {
  return h("select", { id: id(name), name, title: spec.help[name] }, ...options);
}

function field(words, input) {
  return h("span", { class: "lk-field" }, h("label", { for: input.id }, words), input);
}

function details(words, help, ...inside) {
  return h("details", {}, h("summary", { title: help }, words), ...inside);
}

/** A message or an alert: its level in words, and what to do. */
function said(tag, { level, words, what_to_do }) {
  return h(tag, { class: `lk-message lk-${level}` }, h("strong", {}, `${level}: `), words, what_to_do && h("p", {}, what_to_do));
}

/** `act` for values that differ from the one before. */
function onChange(act) {
  let before;
  return (value) => {
    const now = JSON.stringify(value);
    if (now !== before) act(value);
    before = now;
  };
}

/** Only a text that differs: a live region speaks whenever it is written to. */
function setText(node, words) {
  if (node.textContent !== words) node.textContent = words;
}

function asText(value) {
  return value === null ? "" : String(value);
}

export default { render };
