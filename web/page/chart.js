import { count, h, svg, short } from "./dom.js";

// gutter is the room for the numbers at the left.
const gutter = 44;

// top is a round number that is not below n.
function top(n) {
  const power = 10 ** Math.floor(Math.log10(Math.max(n, 1)));
  return [1, 1.5, 2, 3, 4, 5, 6, 8, 10].map(f => f * power).find(t => t >= n);
}

// A chart draws itself again when its room or its data change.
class Chart {
  constructor(label, height, options = {}) {
    this.height = height;
    this.el = h("div", { class: "chart", role: "img", "aria-label": label, ...options });
    this.data = null;
    new ResizeObserver(() => this.draw()).observe(this.el);
  }

  show(data) {
    this.data = data;
    this.draw();
  }

  frame() {
    const width = this.el.clientWidth, large = parseFloat(getComputedStyle(document.documentElement).fontSize) > 18;
    const height = large ? this.height * 1.6 : this.height;
    const box = { left: gutter, right: width, top: 10, bottom: height - 24, width, height };
    return [svg("svg", { viewBox: `0 0 ${width} ${height}`, height, "aria-hidden": "true" }), box];
  }

  scale(root, box, most, format = short) {
    const max = top(most);
    for (const part of [0.5, 1]) {
      if (part === 0.5 && max % 2 !== 0 && max < 10) continue;
      const y = box.bottom - part * (box.bottom - box.top);
      root.append(svg("line", { class: "grid-line", x1: box.left, x2: box.right, y1: y, y2: y }));
      root.append(svg("text", { x: box.left - 8, y: y + 4, "text-anchor": "end" }, format(max * part)));
    }
    root.append(svg("line", { class: "axis", x1: box.left, x2: box.right, y1: box.bottom + .5, y2: box.bottom + .5 }));
    return v => box.bottom - Math.min(v, max) / max * (box.bottom - box.top);
  }
}

// Bars shows stacked bars: data is [{label, tick, n: [count, …]}], and series has the name and class of each count. A bar with low and high is an
// estimate between them, unless those are equal. With onpick some bars can be
// picked, by drag or by keys; onback is for Escape.
export class Bars extends Chart {
  constructor(label, height, onpick, say, onback) {
    super(label, height, onpick ? { tabindex: "0", role: "group" } : {});
    this.cursor = -1;
    this.anchor = -1;
    this.say = say;
    this.series = [{ name: "keys", class: "s0" }, { name: "elements", class: "s1" }];
    if (!onpick) return;
    this.onpick = onpick;
    this.el.classList.add("brush");
    const at = e => {
      const r = this.el.getBoundingClientRect();
      return Math.max(0, Math.min(this.data.length - 1, Math.floor((e.clientX - r.left - gutter) / (r.width - gutter) * this.data.length)));
    };
    this.el.addEventListener("pointerdown", e => {
      if (!this.data?.length || e.button !== 0) return;
      this.el.setPointerCapture(e.pointerId);
      this.drag = true;
      this.move(at(e), e.shiftKey);
    });
    this.el.addEventListener("pointermove", e => {
      if (!this.data?.length) return;
      if (this.drag) this.move(at(e), true);
      else this.read(at(e));
    });
    this.el.addEventListener("pointerup", () => {
      if (this.drag) this.pick();
      this.drag = false;
    });
    this.el.addEventListener("pointercancel", () => { this.drag = false; });
    this.el.addEventListener("keydown", e => {
      if (!this.data?.length) return;
      const last = this.data.length - 1;
      const to = { ArrowLeft: this.cursor - 1, ArrowRight: this.cursor + 1, Home: 0, End: last }[e.key];
      if (to !== undefined) this.move(Math.max(0, Math.min(last, to)), e.shiftKey);
      else if (e.key === "Enter" || e.key === " ") this.pick();
      else if (e.key === "Escape") onback();
      else return;
      e.preventDefault();
    });
  }

  move(to, extend) {
    if (!extend || this.anchor < 0) this.anchor = to;
    this.cursor = to;
    this.read(to);
    this.draw();
  }

  read(i) {
    const [from, to] = this.range();
    if (from < to && i >= from && i <= to) {
      const part = this.data.slice(from, to + 1);
      this.say(`${part[0].label} to ${part.at(-1).label}: ${this.words(part)}`);
    } else {
      this.say(`${this.data[i].label}: ${this.words([this.data[i]])}`);
    }
  }

  words(bars) {
    const sum = f => bars.reduce((n, d) => n + (f(d) ?? 0), 0), low = sum(d => d.low), high = sum(d => d.high);
    return this.series.map((s, k) => `${short(sum(d => d.n[k]))} ${s.name}`).join(", ") + (low < high ? `, estimated: ${count(low)} to ${count(high)}` : "");
  }

  range() { return [Math.min(this.anchor, this.cursor), Math.max(this.anchor, this.cursor)]; }

  pick() {
    const [from, to] = this.range();
    if (from >= 0) this.onpick(this.data[from], this.data[to]);
  }

  clear() {
    this.cursor = this.anchor = -1;
    this.say("");
  }

  // shift moves what is picked with its bars, when those move to the left.
  shift(n) {
    if (this.cursor < 0 || n === 0) return;
    this.cursor = Math.max(-1, this.cursor - n);
    this.anchor = this.cursor < 0 ? -1 : Math.max(0, this.anchor - n);
  }

  draw() {
    if (!this.data || this.el.clientWidth === 0) return;
    const [root, box] = this.frame(), n = this.data.length, step = (box.width - gutter) / n;
    const [from, to] = this.range();
    if (from >= 0) root.append(svg("rect", { class: "picked", x: gutter + from * step, y: box.top - 8, width: (to - from + 1) * step, height: box.bottom - box.top + 8, rx: 4 }));
    const y = this.scale(root, box, Math.max(1, ...this.data.map(d => d.n.reduce((a, b) => a + b, 0))));
    const gap = Math.min(3, step * .25);
    let free = -1e9;
    this.data.forEach((d, i) => {
      const x = gutter + i * step + gap / 2, width = Math.max(.5, step - gap), r = Math.min(2, width / 3);
      for (let k = d.n.length - 1, all = d.n.reduce((a, b) => a + b, 0); k >= 0; all -= d.n[k--]) {
        const at = y(all);
        if (d.n[k] > 0) root.append(svg("rect", { class: this.series[k].class, x, y: Math.min(at, box.bottom - 1), width, height: Math.max(1, box.bottom - at), rx: r }));
      }
      if (d.low < d.high && y(d.low) - y(d.high) > 2) root.append(svg("line", { class: "bounds", x1: x + width / 2, x2: x + width / 2, y1: y(d.low), y2: y(d.high) }));
      if (d.tick && i * step >= free) {
        const at = gutter + i * step + step / 2, end = at > box.width - 30;
        root.append(svg("text", { x: end ? box.width : at, y: box.height - 6, "text-anchor": end ? "end" : "middle" }, d.tick));
        free = i * step + 76;
      }
    });
    if (this.cursor >= 0 && document.activeElement === this.el) root.append(svg("rect", { class: "cursor", x: gutter + this.cursor * step + 1, y: box.top - 8, width: Math.max(1, step - 2), height: box.bottom - box.top + 8, rx: 4 }));
    this.el.replaceChildren(root);
  }
}

// Lines shows values over time: data is {points: [[v, …]], classes: ["", "b", "c"], ticks: [first, last], format}.
export class Lines extends Chart {
  draw() {
    if (!this.data || this.el.clientWidth === 0) return;
    const [root, box] = this.frame(), { points, room } = this.data;
    const y = this.scale(root, box, Math.max(this.data.least ?? 1, ...points.flat()), this.data.format);
    const x = i => gutter + (box.width - gutter) * (room - points.length + i) / Math.max(1, room - 1);
    this.data.classes.forEach((name, k) => {
      const d = points.map((p, i) => (i ? "L" : "M") + x(i).toFixed(1) + " " + y(p[k]).toFixed(1)).join("");
      if (d) root.append(svg("path", { class: "line " + name, d }));
    });
    root.append(svg("text", { x: gutter, y: box.height - 6 }, this.data.ticks[0]), svg("text", { x: box.width, y: box.height - 6, "text-anchor": "end" }, this.data.ticks[1]));
    this.el.replaceChildren(root);
  }
}
