// Pages that are opened from the disk may not start workers. There the search runs in an invisible frame that behaves as one, so that the
// site needs neither a web server nor the network. (The theme would fetch such a script from a server by itself.)
if (location.protocol === "file:") {
  window.Worker = class extends EventTarget {
    #frame = document.createElement("iframe");
    #ready;

    constructor(url) {
      super();
      this.#frame.hidden = true;
      this.#frame.srcdoc = "<!doctype html><title>search</title>";
      this.#ready = new Promise((done) => this.#frame.addEventListener("load", done, { once: true })).then(() => {
        const inner = this.#frame.contentWindow;
        inner.postMessage = (data) => this.dispatchEvent(new MessageEvent("message", { data }));
        // Unlike a worker's, this one returns a promise, for which the theme's code waits.
        inner.importScripts = (...urls) => urls.reduce((before, each) => before.then(() => this.#load(each)), Promise.resolve());
        return this.#load(url);
      });
      document.body.append(this.#frame);
    }

    #load(url) {
      const { document: inside } = this.#frame.contentWindow;
      const script = inside.createElement("script");
      return new Promise((done, failed) => {
        script.addEventListener("load", done);
        script.addEventListener("error", failed);
        script.src = url;
        inside.head.append(script);
      });
    }

    postMessage(data) {
      this.#ready.then(() => this.#frame.contentWindow.dispatchEvent(new MessageEvent("message", { data })));
    }

    terminate() {
      this.#frame.remove();
    }
  };
}
