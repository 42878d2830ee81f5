// The demo page: a client (this tab) and, beside it, what any backend can do over NATS, offered
// to the page by the demo API of the gateway for region "demo", realm "demo" only.
import { Switchyard } from "./switchyard.js";

const $ = (id) => document.getElementById(id);
const LOG_LINES = 100;
const POLL_MS = 1000;
let client = null;

async function api(path, body) {
  const response = await fetch(`demo/${path}`, {
    method: "POST",
    headers: { "Content-Type": "application/json" },
    body: JSON.stringify(body ?? {}),
  });
  const reply = await response.json();
  if (!response.ok) throw new Error(`${reply.code}: ${reply.message}`);
  return reply;
}

function log(text) {
  const line = document.createElement("li");
  line.textContent = `${new Date().toLocaleTimeString()}  ${text}`;
  $("log").prepend(line);
  while ($("log").childElementCount > LOG_LINES) $("log").lastElementChild.remove();
}

function show(state, text) {
  $("state").dataset.state = state;
  $("state").textContent = text;
  $("logout").disabled = state === "out";
}

const names = (text) => text.split(",").map((s) => s.trim()).filter(Boolean);

$("login").addEventListener("submit", async (event) => {
  event.preventDefault();
  const form = new FormData(event.target);
  const device = { id: form.get("device"), flag: "web" };
  client?.close();
  try {
    const { ticket } = await api("ticket", { user: form.get("user") });
    const mine = (client = new Switchyard(form.get("gateway"), { ticket, device }));
    const current = (handle) => (e) => client === mine && handle(e.detail);
    mine.addEventListener("open", current((d) => {
      show("in", `${d.identity.user_id} on ${d.gateway_id}, session ${d.session_id}${d.resumed ? ", resumed" : ""}`);
      log(d.resumed ? `resumed, ${d.replayed} replayed` : "logged in");
    }));
    mine.addEventListener("push", current((d) => log(`push ${d.seq} on route ${d.route}: ${JSON.stringify(d.payload)}`)));
    mine.addEventListener("control", current((d) => log(`session control: ${d.action}${d.reason ? ` (${d.reason})` : ""}`)));
    mine.addEventListener("error", current((error) => log(`cannot come back: ${error.message}`)));
    mine.addEventListener("close", current((d) => {
      show(d.reconnecting ? "wait" : "out", `Closed: ${d.code} ${d.reason}${d.reconnecting ? ", coming back" : ""}`);
      log(`closed ${d.code} ${d.reason}`);
    }));
    await mine.connect();
  } catch (error) {
    show("out", error.message);
  }
  refresh();
});

$("logout").addEventListener("click", () => client?.close());

$("push").addEventListener("submit", async (event) => {
  event.preventDefault();
  const form = new FormData(event.target);
  try {
    const reply = await api("push", { users: names(form.get("to")), text: form.get("text"), ack: form.has("ack") });
    $("reply").textContent = JSON.stringify(reply, null, 2);
  } catch (error) {
    $("reply").textContent = error.message;
  }
});

function row(user, status, session) {
  const tr = document.createElement("tr");
  const cells = [user, status, session?.device?.id ?? "", session?.gateway_id ?? "", session?.session_id ?? ""];
  for (const text of cells) tr.append(Object.assign(document.createElement("td"), { textContent: text }));
  tr.children[1].className = status;
  const last = document.createElement("td");
  if (session) {
    const kick = Object.assign(document.createElement("button"), { textContent: "Kick" });
    kick.addEventListener("click", async () => {
      await api("kick", { user, session_id: session.session_id }).catch((error) => log(error.message));
      refresh();
    });
    last.append(kick);
  }
  tr.append(last);
  return tr;
}

async function refresh() {
  const users = [...new Set([...names($("push").elements.to.value), $("login").elements.user.value])].filter(Boolean);
  try {
    const reply = await api("presence", { users });
    const rows = reply.users.flatMap((u) => {
      const user = u.uid.split("/").slice(2).join("/");
      return u.sessions?.length ? u.sessions.map((s) => row(user, u.status, s)) : [row(user, u.status)];
    });
    $("presence").replaceChildren(...rows);
  } catch (error) {
    $("presence").replaceChildren(row(error.message, "unknown"));
  }
}

async function start() {
  const { gateways } = await api("gateways");
  const select = $("login").elements.gateway;
  for (const url of gateways) select.append(new Option(url, url));
  const turn = Number(localStorage.getItem("tabs") ?? 0); // each new tab starts on the next gateway
  localStorage.setItem("tabs", String(turn + 1));
  if (gateways.length) select.selectedIndex = turn % gateways.length;
  $("login").elements.device.value = `tab-${Math.random().toString(36).slice(2, 8)}`;
  await refresh();
  setInterval(refresh, POLL_MS);
}

start().catch((error) => show("out", error.message));
