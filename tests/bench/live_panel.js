// Runs in the page of a live panel and writes down what the page sees, with the times; live_panel.py reads it. It draws nothing and
// polls nothing, so that it costs next to nothing beside a run.
"use strict";

window.seen = {
  paints: [], // {at_ms, now_s}: the strip was drawn, and shows the device's time now_s
  messages: [], // {at_ms, kind, number, bytes, now_s, mark_s}: between page and kernel
  sizes: false, // whether bytes are counted, which costs time

  // Look at this panel from now on.
  watch(strip, controls, kernel) {
    this.controls = controls;
    const painted = () => this.paints.push({ at_ms: performance.now(), now_s: Number(strip.dataset.now) });
    new MutationObserver(painted).observe(strip, { attributeFilter: ["data-painted"] });
    kernel.anyMessage.connect((_, { msg, direction }) => {
      const bytes = this.sizes ? bytesOf(msg) : 0;
      this.messages.push({ at_ms: performance.now(), bytes, ...describe(msg, direction) });
    });
  },

  // Everything since the last call.
  take() {
    const { paints, messages } = this;
    this.paints = [];
    this.messages = [];
    return { paints, messages };
  },

  // Press Run; resolves when the panel is at rest again.
  run(guard_ms) {
    const rested = new Promise((resolve, reject) => {
      let begun = false;
      const watcher = new MutationObserver((changes) => {
        begun ||= changes.some(({ oldValue }) => oldValue !== "idle");
        if (!begun || this.controls.dataset.phase !== "idle") return;
        watcher.disconnect();
        clearTimeout(guard);
        resolve();
      });
      watcher.observe(this.controls, { attributeFilter: ["data-phase"], attributeOldValue: true });
      const guard = setTimeout(() => reject(new Error(`the run did not end: ${this.controls.innerText.slice(0, 300)}`)), guard_ms);
    });
    this.controls.querySelector("[data-do=run]").click();
    return rested;
  },

  // Choose what is not chosen in a knob of two values; the time at which the page heard of it.
  turn(knob) {
    const select = this.controls.querySelector(`select[name="${knob}"]`);
    select.selectedIndex = 1 - select.selectedIndex;
    return this.change(select);
  },

  // A command that changes nothing: what stands in "run for", once more.
  ping() {
    return this.change(this.controls.querySelector('select[name="run_for"]'));
  },

  change(select) {
    const at_ms = performance.now();
    select.dispatchEvent(new Event("change", { bubbles: true }));
    return at_ms;
  },
};

// What a message is about, and its number: that of a strip's message, of a command, or of the last command that values have heard.
function describe(msg, direction) {
  const data = msg.header.msg_type === "comm_msg" ? msg.content.data : {}, content = data.content ?? {};
  if (direction === "send" && "ack" in content) return { kind: "ack", number: content.ack };
  if (direction === "send" && "do" in content) return { kind: "command", number: content.seq };
  if (direction === "send") return { kind: `to kernel: ${msg.header.msg_type}` };
  if (data.method === "update") return { kind: `update of ${Object.keys(data.state).join(" and ")}`, number: data.state.values?.seq };
  if (!("now_s" in content)) return { kind: msg.header.msg_type };
  return { kind: "strip", number: content.n, now_s: content.now_s, mark_s: content.marks.at(-1)?.t_s };
}

function bytesOf(msg) {
  const words = [msg.header, msg.parent_header, msg.metadata, msg.content].map((part) => JSON.stringify(part).length);
  const buffers = (msg.buffers ?? []).map(({ byteLength }) => byteLength);
  return [...words, ...buffers].reduce((sum, part) => sum + part, 0);
}
