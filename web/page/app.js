// The page: its views, who looks at it, and the messages that come each second.
import { h } from "./dom.js";
import { timeline } from "./timeline.js";
import { now } from "./now.js";
import { keys } from "./keys.js";
import { rules } from "./rules.js";
import { group } from "./group.js";
import { commands, Reader, ReplyError } from "./resp.js";

const views = [timeline, now, group, keys, rules];
const app = { session: null, message: null, history: [], minutes: [] };
const shownViews = new Map();
const retry = 2000;
const failure = h("p", { class: "notice", role: "alert", hidden: true });
let current = null, source = null, timer = null;

// app.at is the address of a part of the dashboard: without the name and password that the page's own may have.
app.at = path => location.origin + "/dashboard/" + path;

// ask gets a path of the dashboard as JSON; an error has the server's words.
app.ask = async path => {
  const answer = await fetch(app.at(path));
  if (!answer.ok) throw Object.assign(new Error((await answer.text()).trim() || answer.statusText), { status: answer.status });
  return answer.json();
};

// runAll runs commands in a database and gives their replies; those that failed are ReplyErrors. Where the database cannot
// be selected none runs.
app.runAll = async (db, list) => {
  const body = commands([["HELLO", 3], ...list]);
  const send = () => fetch(app.at("run?db=" + db), { method: "POST", body, headers: { "X-Keyp-Token": app.session.token } });
  let answer = await send();
  if (answer.status === 403) { // the server has been restarted since the page was loaded
    await renew();
    answer = await send();
  }
  if (!answer.ok) throw new Error((await answer.text()).trim());
  const reader = new Reader(new Uint8Array(await answer.arrayBuffer()));
  const hello = reader.next();
  if (hello instanceof ReplyError) throw hello;
  return list.map(() => reader.next());
};

// run runs one command; an error of its is thrown.
app.run = async (db, ...words) => {
  const [reply] = await app.runAll(db, [words]);
  if (reply instanceof ReplyError) throw reply;
  return reply;
};

// reaches is whether the user may use a database, and databaseChoice is a field to choose one of those.
app.reaches = db => db === 0 || app.session.may.SELECT;
app.databaseChoice = props => h("select", props, Array.from({ length: app.session.databases }, (_, i) => i).filter(app.reaches).map(i => h("option", { value: i }, String(i))));

function link(state, text) {
  const el = document.getElementById("link");
  el.dataset.state = state;
  el.textContent = text;
}

function notice(text) {
  const el = document.getElementById("notice");
  if (el.textContent !== text) el.textContent = text;
  el.hidden = text === "";
}

// lost shows that the server does not answer, and tries again.
function lost(why) {
  source?.close();
  source = null;
  link("lost", "not connected");
  notice(why + " What you see is as of the last answer. Trying again…");
  clearTimeout(timer);
  timer = setTimeout(connect, retry);
}

async function connect() {
  clearTimeout(timer);
  try {
    await renew();
  } catch (e) {
    lost(e.status ? `The server answers: ${e.message}.` : "The connection to the server is lost.");
    return;
  }
  notice("");
  watch();
}

// renew asks who looks at the page and what they may do. Views are made for that, so they are made anew where it has changed.
async function renew() {
  const session = await app.ask("session"), rights = s => JSON.stringify([s?.user, s?.databases, s?.may, s?.group]);
  if (rights(session) !== rights(app.session)) shownViews.clear();
  app.session = session;
  show();
}

// watch has messages come while the page can be seen: browsers have six connections to a server, for all pages together,
// and each stream takes one.
function watch() {
  source?.close();
  source = null;
  if (!app.session?.may.watch) {
    link("off", app.session?.user ?? "");
    return;
  }
  if (document.hidden) {
    link("off", "paused");
    return;
  }
  source = new EventSource(app.at("live"));
  source.onmessage = e => {
    const m = JSON.parse(e.data);
    if (m.history) app.history = m.history;
    if (app.history.at(-1)?.at !== m.point.at) app.history.push(m.point);
    app.history = app.history.slice(-120);
    if (m.minutes) app.minutes = m.minutes;
    if (m.minute && app.minutes.at(-1)?.at !== m.minute.at) app.minutes = [...app.minutes, m.minute].slice(-120);
    app.message = m;
    link("live", `${app.session.user} · live`);
    notice("");
    if (!document.hidden) attempt(() => current?.update?.(m));
  };
  source.onerror = () => lost("The connection to the server is lost.");
}

function nav() {
  const id = location.hash.slice(1).split("/")[0] || views[0].id;
  document.getElementById("nav").replaceChildren(...views.filter(v => v.when?.(app.session) ?? true).map(v =>
    h("a", { href: "#" + (attempt(() => shownViews.get(v)?.address?.()) ?? v.id), "aria-current": v.id === id ? "page" : null }, v.title)));
}

// attempt has a view do something. Where that fails the page says so above the view, as for whatever else fails, and goes on.
function attempt(work) {
  try { return work(); } catch (e) { reportError(e); }
}

function failed(e) {
  if (!e) return;
  failure.textContent = "This part of the page failed: " + (e.message ?? e);
  failure.hidden = false;
}

// show shows the view that the address names, and gives it what follows the view's name there.
function show() {
  if (!app.session) return;
  const [, id, rest] = /^#?([^/]*)\/?(.*)$/s.exec(location.hash);
  const view = views.find(v => v.id === id) ?? views[0];
  failure.hidden = true;
  nav();
  const missing = view.needs(app.session.may);
  let made = shownViews.get(view);
  if (missing) {
    made = { el: h("section", {}, h("h1", {}, view.title), h("p", { class: "notice" }, `The user ${app.session.user} may not see this: it needs ${missing}.`)) };
  } else if (!made) {
    made = attempt(() => view.make(app));
    if (made) shownViews.set(view, made);
    else made = { el: h("section", {}, h("h1", {}, view.title)) };
  }
  if (current !== made) {
    attempt(() => current?.leave?.());
    current = made;
    document.getElementById("main").replaceChildren(failure, made.el);
    document.title = view.title + " · Keyp";
  }
  attempt(() => made.open?.(rest));
  if (app.message) attempt(() => made.update?.(app.message));
}

addEventListener("hashchange", show);
addEventListener("error", e => failed(e.error)); // a ResizeObserver's notes have none
addEventListener("unhandledrejection", e => failed(e.reason));
addEventListener("visibilitychange", () => {
  if (!document.hidden) {
    connect();
    return;
  }
  current?.leave?.();
  watch();
});
connect();
