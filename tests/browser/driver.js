// Runs in the page before JupyterLab does; page.py asks it. It waits for what JupyterLab itself says (its promises, the
// state of its models), where looking at the screen would race or miss cells that are scrolled away.
"use strict";

window.driver = {
  path: null, // the notebook that is driven
  pending: 0, // commands that JupyterLab has not finished

  panel() {
    const main = window.jupyterapp ? [...window.jupyterapp.shell.widgets("main")] : [];
    return main.find((widget) => widget.context?.path === this.path && widget.content?.model) ?? null;
  },

  kernel() {
    return this.panel()?.sessionContext.session?.kernel ?? null;
  },

  loaded() {
    return Boolean(this.panel()?.context.isReady && this.panel().content.widgets.length);
  },

  // Run All before the websocket is up is lost without a word; "idle" alone is not enough.
  kernelReady() {
    const kernel = this.kernel();
    return this.panel()?.sessionContext.isReady && kernel?.connectionStatus === "connected" && kernel.status === "idle";
  },

  cells() {
    return this.panel().content.widgets.filter((cell) => cell.model.type === "code");
  },

  // Nothing is queued, nothing runs. An interrupted or restarted kernel counts as done.
  done() {
    return this.pending === 0 && this.cells().every((cell) => cell.model.executionState !== "running");
  },

  // Starts a JupyterLab command and returns at once; done() tells the end.
  start(command, args = {}) {
    const finished = () => { this.pending -= 1; };
    this.pending += 1;
    window.jupyterapp.shell.activateById(this.panel().id);
    window.jupyterapp.commands.execute(command, args).then(finished, finished);
  },

  run(index) {
    const notebook = this.panel().content;
    notebook.deselectAll();
    notebook.activeCellIndex = notebook.widgets.indexOf(this.cells()[index]);
    this.start("notebook:run-cell");
  },

  outputs(index) {
    return this.cells()[index].model.outputs.toJSON();
  },

  errors(index) {
    return this.outputs(index)
      .filter((output) => output.output_type === "error")
      .map((output) => `cell ${index}: ${output.ename}: ${output.evalue}`);
  },

  async open(path) {
    this.path = path;
    if (!this.panel()) await window.jupyterapp.commands.execute("docmanager:open", { path });
  },

  // Closes the tab inside JupyterLab and keeps the kernel, as its × does; unsaved changes are dropped.
  close() {
    this.panel().context.model.dirty = false;
    this.panel().close();
  },
};
