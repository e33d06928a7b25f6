// Draws the charts that the server describes (curro.report.charts) as SVG. Every text goes through textContent.

const NS = "http://www.w3.org/2000/svg";
const MARGIN = {left: 46, right: 12, top: 10, bottom: 38};

export function element(name, attributes = {}, text = null) {
  const made = document.createElement(name);
  for (const [key, value] of Object.entries(attributes)) made.setAttribute(key, value);
  if (text !== null) made.textContent = text;
  return made;
}

function shape(parent, name, attributes, text = null) {
  const made = document.createElementNS(NS, name);
  for (const [key, value] of Object.entries(attributes)) made.setAttribute(key, value);
  if (text !== null) made.textContent = text;
  parent.append(made);
  return made;
}

export function short(value) {
  if (value === null || value === undefined) return "–";
  for (const [limit, unit] of [[1e9, "G"], [1e6, "M"], [1e3, "k"]])
    if (Math.abs(value) >= limit) return `${Number((value / limit).toPrecision(3))}${unit}`;
  return `${Number(value.toPrecision(3))}`;
}

function ticks(low, high, most) {
  const rough = (high - low) / most || 1, power = 10 ** Math.floor(Math.log10(rough));
  const step = [1, 2, 2.5, 5, 10].find(one => one * power >= rough * 0.999) * power;
  const found = [];
  for (let k = Math.ceil(low / step - 1e-9); k * step <= high + step * 1e-9; k++) found.push(k * step);
  return found;
}

// A figure that draws itself anew where its width changes.
export class Figure {
  constructor() {
    this.node = element("figure");
    this.title = element("h3");
    this.legend = element("ul", {class: "legend"});
    this.caption = element("figcaption");
    this.svg = document.createElementNS(NS, "svg");
    this.svg.setAttribute("role", "img");
    this.node.append(this.title, this.legend, this.svg, this.caption);
    this.width = 0;
    new ResizeObserver(() => {
      const width = this.svg.clientWidth;
      if (width && width !== this.width) this.draw();
    }).observe(this.node);
    this.svg.addEventListener("pointermove", event => this.point(event));
    this.svg.addEventListener("pointerleave", () => this.leave());
  }

  show(chart) {
    const text = JSON.stringify(chart);
    if (text === this.text) return;
    this.text = text;
    this.chart = chart;
    this.node.dataset.chart = chart.name;
    this.title.textContent = chart.title;
    this.caption.textContent = chart.caption;
    this.svg.setAttribute("aria-label", `${chart.title}. ${chart.caption}`);
    const area = chart.kind === "stack" || chart.kind === "bars";
    this.legend.replaceChildren(...chart.series.filter(one => one.name).map(one => {
      const item = element("li");
      item.append(element("i", {class: `c${one.colour} ${area ? "area" : ""}`}), element("span", {}, one.name));
      return item;
    }));
    this.draw();
  }

  draw() {
    this.width = this.svg.clientWidth;
    if (!this.width || !this.chart) return;
    const chart = this.chart, width = this.width, height = Math.round(Math.min(300, Math.max(190, width * 0.6)));
    this.svg.setAttribute("viewBox", `0 0 ${width} ${height}`);
    this.svg.setAttribute("height", height);
    this.svg.replaceChildren();
    const [x0, x1] = this.domainX(), [y0, y1] = this.domainY();
    const right = width - MARGIN.right, bottom = height - MARGIN.bottom;
    const level = chart.log ? value => Math.log2(value) : value => value;
    this.x = value => MARGIN.left + (value - x0) / (x1 - x0 || 1) * (right - MARGIN.left);
    this.y = value => bottom - (level(value) - level(y0)) / (level(y1) - level(y0) || 1) * (bottom - MARGIN.top);
    this.axes(x0, x1, y0, y1, right, bottom);
    ({lines: () => this.lines(), stack: () => this.stack(), bars: () => this.bars(), heat: () => this.heat()})[chart.kind]();
    for (const mark of chart.marks) this.mark(mark);
    this.cross = shape(this.svg, "line", {class: "cross", y1: MARGIN.top, y2: bottom, visibility: "hidden"});
  }

  domainX() {
    const {kind, edges, series} = this.chart;
    if (kind === "bars") return [-0.5, series[0].y.length - 0.5];
    if (edges) return [edges[0], edges[edges.length - 1]];
    const all = series.flatMap(one => one.x).filter(value => value !== null);
    return [Math.min(...all), Math.max(...all)];
  }

  domainY() {
    const {kind, y_range: [low, high], series} = this.chart;
    if (kind === "heat") return [-0.5, series.length - 0.5];
    const all = series.flatMap(one => [...one.y, ...(one.low || []), ...(one.high || [])]).filter(value => value !== null);
    let least = low ?? Math.min(...all), most = high ?? Math.max(...all);
    if (!Number.isFinite(least) || !Number.isFinite(most)) return [0, 1];
    const room = (most - least || Math.abs(most) || 1) * 0.06;
    if (this.chart.log) return [least / 1.1, most * 1.1];
    if (low === null) least -= room;
    if (high === null) most += room;
    return [least, most];
  }

  axes(x0, x1, y0, y1, right, bottom) {
    const {kind, ticks: labels, log} = this.chart;
    let atY = kind === "heat" ? labels.map((label, i) => [i, label]).filter(([, label]) => label !== null)
      : (log ? ticks(Math.log2(y0), Math.log2(y1), 5).map(v => 2 ** v) : ticks(y0, y1, 5)).map(v => [v, short(v)]);
    for (const [value, label] of atY) {
      const y = this.y(value);
      if (kind !== "heat") shape(this.svg, "line", {class: "grid", x1: MARGIN.left, x2: right, y1: y, y2: y});
      shape(this.svg, "text", {x: MARGIN.left - 6, y: y + 4, "text-anchor": "end"}, label);
    }
    const atX = kind === "bars" && labels ? labels.map((label, i) => [i, label]).filter(([, label]) => label !== null)
      : ticks(x0, x1, this.width < 340 ? 4 : 6).map(v => [v, short(v)]);
    for (const [value, label] of atX)
      shape(this.svg, "text", {x: this.x(value), y: bottom + 15, "text-anchor": "middle"}, label);
    if (this.chart.x_label)
      shape(this.svg, "text", {x: (MARGIN.left + right) / 2, y: bottom + 32, "text-anchor": "middle"}, this.chart.x_label);
    shape(this.svg, "line", {class: "grid", x1: MARGIN.left, x2: right, y1: bottom, y2: bottom});
  }

  lines() {
    for (const one of this.chart.series) {
      const group = shape(this.svg, "g", {class: `c${one.colour}`});
      if (one.low && one.high) {
        const there = one.x.map((x, i) => `${this.x(x)},${this.y(one.high[i])}`);
        const back = one.x.map((x, i) => `${this.x(x)},${this.y(one.low[i])}`).reverse();
        shape(group, "polygon", {class: "band", points: [...there, ...back].join(" ")});
      }
      let path = "", pen = false;
      one.x.forEach((x, i) => {
        if (one.y[i] === null) { pen = false; return; }
        path += `${pen ? "L" : "M"}${this.x(x).toFixed(1)} ${this.y(one.y[i]).toFixed(1)}`;
        pen = true;
      });
      const dashes = one.style === "line" || one.style === "points" ? ["", "6 3", "2 3", "8 3 2 3"][one.colour % 4] : "";
      shape(group, "path", {class: `line ${one.style}`, d: path || "M0 0", "stroke-dasharray": dashes || "none"});
      if (one.style === "points" && one.x.length < 60) one.x.forEach((x, i) => {
        if (one.y[i] !== null) shape(group, "circle", {class: "dot", cx: this.x(x), cy: this.y(one.y[i]), r: 3.2});
      });
    }
  }

  stack() {
    const {edges, series} = this.chart;
    const below = new Array(edges.length - 1).fill(0);
    for (const one of series) {
      let there = "", back = "";
      below.forEach((low, i) => {
        const left = this.x(edges[i]).toFixed(1), rightEdge = this.x(edges[i + 1]).toFixed(1);
        const top = this.y(low + one.y[i]).toFixed(1), bottom = this.y(low).toFixed(1);
        there += `${i ? "L" : "M"}${left} ${top}L${rightEdge} ${top}`;
        back = `L${rightEdge} ${bottom}L${left} ${bottom}` + back;
        below[i] = low + one.y[i];
      });
      shape(shape(this.svg, "g", {class: `c${one.colour}`}), "path", {class: "area", d: `${there}${back}Z`});
    }
  }

  bars() {
    const {series} = this.chart, wide = 0.8 / series.length, zero = this.y(0);
    series.forEach((one, i) => {
      const group = shape(this.svg, "g", {class: `c${one.colour}`});
      one.y.forEach((value, place) => {
        const left = this.x(place - 0.4 + wide * i), right = this.x(place - 0.4 + wide * (i + 1));
        if (value > 0) shape(group, "rect", {class: "area", x: left + 0.5, y: this.y(value), rx: 1.5,
          width: Math.max(right - left - 1, 1), height: Math.max(zero - this.y(value), 0.5)});
      });
    });
  }

  heat() {
    const {edges, series} = this.chart;
    series.forEach((one, row) => {
      const group = shape(this.svg, "g", {class: `c${one.colour}`});
      const top = this.y(row + 0.5), tall = this.y(row - 0.5) - top;
      one.y.forEach((value, i) => {
        if (value > 0) shape(group, "rect", {class: "area", x: this.x(edges[i]), y: top, height: tall - 0.5,
          width: Math.max(this.x(edges[i + 1]) - this.x(edges[i]) - 0.3, 0.3), "fill-opacity": Math.sqrt(value).toFixed(3)});
      });
    });
  }

  mark({x0, x1, y, text}) {
    const from = this.x(x0), to = this.x(x1), at = this.y(y), head = from < to ? -6 : 6;
    shape(this.svg, "path", {class: "line mark", d: `M${from} ${at}H${to}m${head} -4l${-head} 4l${head} 4`});
    shape(this.svg, "text", {class: "mark-text", x: (from + to) / 2, y: at + 16, "text-anchor": "middle"}, text);
  }

  // What stands under the pointer, in the page's one tip.
  point(event) {
    const tip = document.getElementById("tip"), chart = this.chart;
    if (!chart || !this.x) return;
    const box = this.svg.getBoundingClientRect(), at = event.clientX - box.left;
    const rows = [];
    let head = "", place = at;
    if (chart.kind === "bars" || chart.edges) {
      const middles = chart.edges ? chart.edges.slice(1).map((edge, i) => (edge + chart.edges[i]) / 2)
        : chart.series[0].y.map((_, i) => i);
      const i = nearest(middles, value => Math.abs(this.x(value) - at));
      place = this.x(middles[i]);
      head = chart.edges ? span(chart.x_label, chart.edges[i], chart.edges[i + 1])
        : `${chart.x_label} ${chart.ticks ? chart.ticks[i] ?? `${i}/8` : i}`;
      const shown = chart.kind === "heat" ? [...chart.series].map((one, row) => ({...one, name: chart.ticks[row] ?? `${row}/8`})).reverse()
        : chart.series;
      for (const one of shown) if (chart.kind !== "heat" || one.y[i] > 0.005) rows.push([one.colour, one.name, percent(one.y[i])]);
    } else {
      const all = [...new Set(chart.series.filter(one => one.style !== "rule" || one.x.length > 2).flatMap(one => one.x))];
      const x = all[nearest(all, value => Math.abs(this.x(value) - at))];
      place = this.x(x);
      head = `${chart.x_label} ${Number.isInteger(x) ? x.toLocaleString("en") : short(x)}`;
      for (const one of chart.series) {
        if (one.style === "faint" || !one.x.length) continue;
        const i = nearest(one.x, value => Math.abs(value - x));
        if (one.y[i] !== null) rows.push([one.colour, one.name || chart.title, short(one.y[i])]);
      }
    }
    this.cross.setAttribute("x1", place);
    this.cross.setAttribute("x2", place);
    this.cross.setAttribute("visibility", "visible");
    tip.replaceChildren(element("strong", {}, head), ...rows.map(([colour, name, value]) => {
      const row = element("div"), label = element("span", {class: `name c${colour}`});
      label.append(element("i"), element("span", {}, name));
      row.append(label, element("span", {}, value));
      return row;
    }));
    tip.hidden = false;
    const wide = tip.offsetWidth, left = event.clientX + 14;
    tip.style.left = `${Math.max(4, left + wide > innerWidth - 4 ? event.clientX - wide - 14 : left)}px`;
    tip.style.top = `${Math.max(4, Math.min(event.clientY + 14, innerHeight - tip.offsetHeight - 4))}px`;
  }

  leave() {
    document.getElementById("tip").hidden = true;
    if (this.cross) this.cross.setAttribute("visibility", "hidden");
  }
}

function nearest(values, distance) {
  let best = 0;
  values.forEach((value, i) => { if (distance(value) < distance(values[best])) best = i; });
  return best;
}

function span(label, low, high) {
  const first = Math.ceil(low), last = Math.floor(high);
  return first === last ? `${label} ${first}` : `${label}s ${first} to ${last}`;
}

const percent = value => `${(100 * value).toFixed(value < 0.1 ? 1 : 0)}%`;
