// Search when the site is opened from disk: browsers start no workers there, so the search's worker runs in a hidden frame.
// The theme looks for the name IFrameWorker, and for a script with a source in the frame.

(() => {
  if (location.protocol !== "file:") return;

  class IFrameWorker extends EventTarget {
    constructor(url) {
      super();
      this.frame = document.createElement("iframe");
      this.frame.hidden = true;
      this.ready = new Promise((resolve) => {
        this.frame.onload = () => this.start(String(new URL(url, location.href)), resolve);
      });
      const place = () => document.body.append(this.frame);
      if (document.body) place();
      else document.addEventListener("DOMContentLoaded", place);
    }

    start(url, resolve) {
      const inside = this.frame.contentWindow;
      const load = (source) => new Promise((done, fail) => {
        const script = inside.document.createElement("script");
        Object.assign(script, { src: source, onload: done, onerror: fail });
        inside.document.body.append(script);
      });
      inside.postMessage = (data) => {
        const event = new MessageEvent("message", { data });
        this.dispatchEvent(event);
        this.onmessage?.(event);
      };
      inside.importScripts = (...sources) => sources.reduce((before, source) => before.then(() => load(source)), Promise.resolve());
      load(url).then(resolve);
    }

    postMessage(data) {
      this.ready.then(() => {
        const inside = this.frame.contentWindow;
        inside.dispatchEvent(new inside.MessageEvent("message", { data }));
      });
    }

    terminate() {
      this.frame.remove();
    }
  }

  window.IFrameWorker = IFrameWorker;
  window.Worker = IFrameWorker;
})();
