// What expired lately, and how late: each second of two minutes, or each minute of two hours.
import { Bars, Lines } from "./chart.js";
import { count, h, late } from "./dom.js";

const room = 120, mostRows = 30, slowest = 10000;
const spans = [
  { id: "seconds", title: "two minutes", unit: "second", ago: "2 min ago", points: app => app.history, clock: { hour: "2-digit", minute: "2-digit", second: "2-digit" } },
  { id: "minutes", title: "two hours", unit: "minute", ago: "2 h ago", points: app => app.minutes, clock: { hour: "2-digit", minute: "2-digit" } },
];

export function lately(app) {
  let span = spans[0];
  const lateness = new Lines("How late keys and elements were removed", 150), expired = new Bars("How many keys and elements expired", 150);
  const keys = h("span"), elements = h("span", { class: "s1" }), body = h("tbody"), none = h("p", { class: "soft small" });
  const buttons = spans.map(s => h("button", { id: "lately-" + s.id, onclick: () => { span = s; update(); } }, s.title));
  const el = h("section", { class: "card" },
    h("div", { class: "head" }, h("h2", { class: "grow" }, "Expired lately"), h("div", { class: "row", role: "group", "aria-label": "Expired in the last" }, ...buttons)),
    h("div", { class: "grid wide" },
      h("div", {}, expired.el, h("p", { class: "legend" }, keys, elements)),
      h("div", {}, lateness.el, h("p", { class: "legend" }, h("span", { class: "l" }, "lateness p50"), h("span", { class: "l b" }, "p99"), h("span", { class: "l c" }, "max")))), none,
    h("details", { class: "lately" }, h("summary", {}, "As a table"), h("div", { class: "scroll" },
      h("table", {}, h("thead", {}, h("tr", {}, ...["At", "Keys", "Elements", "p50", "p99", "max"].map((t, i) => h("th", { scope: "col", class: i ? "n" : null }, t)))), body))));

  function update() {
    const points = span.points(app), at = new Intl.DateTimeFormat("en-GB", span.clock);
    spans.forEach((s, i) => buttons[i].setAttribute("aria-pressed", s === span));
    keys.textContent = "keys a " + span.unit;
    elements.textContent = "elements a " + span.unit;
    none.textContent = points.length ? "" : `No ${span.unit} has passed yet.`;
    const before = Array.from({ length: Math.max(0, room - points.length) }, () => ({ n: [0, 0], label: "" }));
    expired.show([...before, ...points.map(p => ({ n: [p.keys, p.elements], label: "" }))].map((d, i, all) => ({ ...d, tick: i === 4 ? span.ago : i === all.length - 1 ? "now" : "" })));
    lateness.show({ points: points.map(p => [p.p50, p.p99, p.max].map(v => v < 0 ? slowest : v)), classes: ["", "b", "c"], room, ticks: [span.ago, "now"], least: 1, format: v => v + " ms" });
    body.replaceChildren(...points.filter(p => p.keys + p.elements > 0).reverse().slice(0, mostRows).map(p => h("tr", {}, h("td", {}, at.format(p.at)),
      ...[count(p.keys), count(p.elements), late(p.p50), late(p.p99), late(p.max)].map(t => h("td", { class: "n" }, t)))));
  }

  return { el, update };
}
