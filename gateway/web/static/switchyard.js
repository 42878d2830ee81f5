// The browser client of Switchyard: one class, no dependencies, no build step.
//
//   import { Switchyard } from "./switchyard.js";
//   const sy = new Switchyard("wss://play.example/v1/connect", { ticket });
//   sy.addEventListener("push", (e) => console.log(e.detail.route, e.detail.payload));
//   await sy.connect();
//
// It speaks the JSON subprotocol of PROTOCOL.md: authenticates with a ticket, answers and sends
// heartbeats, acknowledges what asks for it, and comes back with its reconnect ticket and a
// jittered back-off after every close whose code allows it (4000-4499, or a lost network). It
// renews that ticket at half of its life, so that it can come back after any time.
//
// Events: "open" (authenticated; detail is the response), "push" (detail: route, payload, seq),
// "control" (session control), "close" (detail: code, reason, reconnecting), "resync" (a reconnect
// was not a resume: the state that pushes built up must be read again), "error" (a reconnect was
// refused for good, no other follows; detail is the SwitchyardError).

const SUBPROTOCOL = "switchyard.v1.json";
const ROUTE = { authenticate: 1, heartbeat: 2, renew: 3, control: 4, ack: 5, join: 6, leave: 7 };
const REQUEST_TIMEOUT_MS = 10_000;
const MAX_PENDING = 256; // requests without an answer; more are refused here
const BACKOFF_MIN_MS = 250;
const BACKOFF_MAX_MS = 15_000;
const RENEW_RETRY_MS = 1_000; // between two tries to renew the reconnect ticket, half more or less

/** An error frame, or a request that could not be sent. */
export class SwitchyardError extends Error {
  constructor({ code, message, retryable = false, retry_after_ms }) {
    super(`${code}: ${message}`);
    this.code = code;
    this.retryable = retryable;
    this.retryAfterMs = retry_after_ms;
  }
}

export class Switchyard extends EventTarget {
  #url;
  #options;
  #socket = null;
  #pending = new Map(); // request id -> {resolve, reject, timer}
  #nextId = 1;
  #heartbeat = null;
  #renewal = null;
  #retry = null;
  #attempt = 0;
  #stopped = false;
  #ticket;
  #lastSeq = 0;
  session = null; // the latest authenticate response

  /**
   * @param {string|function(): string} url the gateway, or a function that chooses one for each attempt
   * @param {{ticket: string, device?: {id: string, flag?: string}, resumable?: boolean}} options
   */
  constructor(url, options) {
    super();
    this.#url = url;
    this.#options = options;
    this.#ticket = options.ticket;
  }

  /** Opens the connection and authenticates. Rejects when the first attempt is refused. */
  connect() {
    this.#stopped = false;
    return this.#open();
  }

  /** Ends the session for good: no reconnect follows. */
  close() {
    this.#stopped = true;
    clearTimeout(this.#retry);
    this.#socket?.close(1000);
  }

  /** Sends a request to an application route (>= 100) and resolves with the response's payload. */
  request(route, payload) {
    return this.#call(route, payload);
  }

  join(group) {
    return this.#call(ROUTE.join, { group });
  }

  leave(group) {
    return this.#call(ROUTE.leave, { group });
  }

  async #open() {
    const url = typeof this.#url === "function" ? this.#url() : this.#url;
    const socket = new WebSocket(url, SUBPROTOCOL);
    this.#socket = socket;
    socket.onmessage = (event) => this.#receive(JSON.parse(event.data));
    socket.onclose = (event) => this.#closed(socket, event);
    await new Promise((resolve, reject) => {
      socket.onopen = resolve;
      socket.addEventListener("close", (e) => reject(new SwitchyardError({ code: "UNAVAILABLE", message: e.reason || "connection closed", retryable: true })), { once: true });
    });
    const request = { ticket: this.#ticket };
    if (this.#options.device) request.device = this.#options.device;
    if (this.#options.resumable === false) request.resumable = false;
    else if (this.session) request.resume = { session_id: this.session.session_id, last_seq: this.#lastSeq };
    let response;
    try {
      response = await this.#call(ROUTE.authenticate, request);
    } catch (error) {
      // A refusal that may pass is tried again later with the same ticket, which is still good.
      if (socket.readyState === WebSocket.OPEN) socket.close(1000, error.retryable ? "retry" : "refused");
      if (!error.retryable) this.#stopped = true;
      throw error;
    }
    const hadSession = this.session !== null;
    this.session = response;
    this.#ticket = response.reconnect.ticket;
    this.#attempt = 0;
    if (!response.resumed) this.#lastSeq = 0;
    this.#startHeartbeat(response.heartbeat_interval_ms);
    this.#scheduleRenewal(socket, halfLife(response.reconnect));
    this.dispatchEvent(new CustomEvent("open", { detail: response }));
    if (hadSession && !response.resumed) this.dispatchEvent(new CustomEvent("resync"));
    return response;
  }

  #call(route, payload) {
    const socket = this.#socket;
    if (!socket || socket.readyState !== WebSocket.OPEN) {
      return Promise.reject(new SwitchyardError({ code: "UNAVAILABLE", message: "not connected", retryable: true }));
    }
    if (this.#pending.size >= MAX_PENDING) {
      return Promise.reject(new SwitchyardError({ code: "QUEUE_FULL", message: "too many requests in flight", retryable: true }));
    }
    const id = this.#nextId++;
    return new Promise((resolve, reject) => {
      const timer = setTimeout(() => {
        this.#pending.delete(id);
        reject(new SwitchyardError({ code: "TIMEOUT", message: "no answer", retryable: true }));
      }, REQUEST_TIMEOUT_MS);
      this.#pending.set(id, { resolve, reject, timer });
      socket.send(JSON.stringify({ kind: "request", route, id, payload }));
    });
  }

  #receive(frame) {
    switch (frame.kind) {
      case "response":
        this.#settle(frame.id)?.resolve(payloadOf(frame));
        break;
      case "error":
        this.#settle(frame.id)?.reject(new SwitchyardError(frame.payload));
        break;
      case "push":
        this.#push(frame);
        break;
      case "request": // the gateway's own heartbeat
        if (frame.route === ROUTE.heartbeat) this.#socket.send(JSON.stringify({ kind: "response", route: frame.route, id: frame.id }));
        break;
    }
  }

  #settle(id) {
    const waiting = this.#pending.get(id);
    if (waiting) {
      clearTimeout(waiting.timer);
      this.#pending.delete(id);
    }
    return waiting;
  }

  #push(frame) {
    if (frame.route === ROUTE.control) {
      this.dispatchEvent(new CustomEvent("control", { detail: frame.payload }));
      return;
    }
    if (frame.seq) this.#lastSeq = frame.seq;
    this.dispatchEvent(new CustomEvent("push", { detail: { route: frame.route, seq: frame.seq, payload: payloadOf(frame) } }));
    if (frame.ack) this.#call(ROUTE.ack, { seqs: [frame.seq] }).catch(() => {}); // a lost acknowledgement shows at the sender
  }

  #startHeartbeat(interval) {
    clearInterval(this.#heartbeat);
    this.#heartbeat = setInterval(() => {
      this.#call(ROUTE.heartbeat, { last_seq: this.#lastSeq }).catch(() => {}); // a dead link shows as a close
    }, interval);
  }

  #scheduleRenewal(socket, delay) {
    clearTimeout(this.#renewal);
    this.#renewal = setTimeout(() => this.#renew(socket), delay);
  }

  // A renewal uses the ticket up, so the newest one is kept. A failure that may pass is tried again
  // with the same ticket; one that may not shows when the client has to come back.
  async #renew(socket) {
    let delay;
    try {
      const next = await this.#call(ROUTE.renew, { ticket: this.#ticket });
      this.#ticket = next.ticket;
      delay = halfLife(next);
    } catch (error) {
      if (!error.retryable) return;
      delay = Math.max(error.retryAfterMs ?? 0, RENEW_RETRY_MS * (0.5 + Math.random()));
    }
    if (socket === this.#socket && socket.readyState === WebSocket.OPEN) this.#scheduleRenewal(socket, delay);
  }

  #closed(socket, event) {
    if (socket !== this.#socket) return;
    clearInterval(this.#heartbeat);
    clearTimeout(this.#renewal);
    for (const [id, { reject, timer }] of this.#pending) {
      clearTimeout(timer);
      this.#pending.delete(id);
      reject(new SwitchyardError({ code: "UNAVAILABLE", message: "connection closed", retryable: true }));
    }
    const reconnecting = !this.#stopped && this.session !== null && event.code < 4500;
    this.dispatchEvent(new CustomEvent("close", { detail: { code: event.code, reason: event.reason, reconnecting } }));
    if (reconnecting) this.#schedule();
  }

  // Full jitter: the whole delay is random, so that clients cut in the same second come back spread out.
  #schedule() {
    const ceiling = Math.min(BACKOFF_MAX_MS, BACKOFF_MIN_MS * 2 ** this.#attempt++);
    this.#retry = setTimeout(() => {
      this.#open().catch((error) => {
        // The close of the failed attempt schedules the next, unless there is none.
        if (!error.retryable) this.dispatchEvent(new CustomEvent("error", { detail: error }));
      });
    }, BACKOFF_MIN_MS / 2 + Math.random() * ceiling);
  }
}

// Half of a ticket's life in milliseconds, less up to a tenth, so that clients that came together
// do not renew together.
function halfLife({ expires_in_seconds }) {
  return expires_in_seconds * 500 * (1 - Math.random() / 10);
}

function payloadOf(frame) {
  if (frame.payload_b64 === undefined) return frame.payload;
  return Uint8Array.from(atob(frame.payload_b64), (c) => c.charCodeAt(0));
}
