// Shows the pictures that the server draws (curro.runs.report.drawing), and their numbers under the pointer.

const NS = "http://www.w3.org/2000/svg";

export function element(name, attributes = {}, text = null) {
  const made = document.createElement(name);
  for (const [key, value] of Object.entries(attributes)) made.setAttribute(key, value);
  if (text !== null) made.textContent = text;
  return made;
}

function shape(name, attributes) {
  const made = document.createElementNS(NS, name);
  for (const [key, value] of Object.entries(attributes)) made.setAttribute(key, value);
  return made;
}

function swatch({colour, dashes}) {
  const svg = shape("svg", {viewBox: "0 0 26 11", class: `s${colour}`, "aria-hidden": "true"});
  svg.append(dashes === null ? shape("rect", {class: "area", width: 26, height: 11})
    : shape("path", {class: "line", d: "M0 6H26", "stroke-width": 2.5, "stroke-dasharray": dashes.join(" ") || "none"}));
  return svg;
}

export class Figure {
  constructor() {
    this.node = element("figure");
    this.title = element("h3");
    this.legend = element("ul", {class: "legend"});
    this.caption = element("figcaption");
    this.svg = shape("svg", {});
    this.node.append(this.title, this.legend, this.svg, this.caption);
    this.node.addEventListener("pointermove", event => this.point(event));
    this.node.addEventListener("pointerleave", () => this.leave());
  }

  show(picture) {
    if (this.picture && picture.svg === this.picture.svg && picture.caption === this.picture.caption) return;
    this.picture = picture;
    this.node.dataset.chart = picture.name;
    this.title.textContent = picture.title;
    this.caption.textContent = picture.caption;
    this.legend.replaceChildren(...picture.legend.map(key => {
      const item = element("li");
      item.append(swatch(key), element("span", {}, key.name));
      return item;
    }));
    // the only markup that the server sends: it was made by the renderer, with every text escaped
    const drawn = new DOMParser().parseFromString(picture.svg.replace("<svg", `<svg xmlns="${NS}"`), "image/svg+xml");
    const svg = document.importNode(drawn.documentElement, true);
    this.cross = shape("line", {class: "cross", y1: picture.top, y2: picture.bottom, visibility: "hidden"});
    svg.append(this.cross);
    this.svg.replaceWith(svg);
    this.svg = svg;
  }

  // The numbers at the place that is nearest to the pointer, in the page's one tip.
  point(event) {
    const box = this.svg.getBoundingClientRect();
    if (!this.picture?.tips.length || event.clientY < box.top || event.clientY > box.bottom) return this.leave();
    const at = (event.clientX - box.left) * this.svg.viewBox.baseVal.width / box.width;
    const {x, head, rows} = this.picture.tips.reduce((best, one) => Math.abs(one.x - at) < Math.abs(best.x - at) ? one : best);
    this.cross.setAttribute("x1", x);
    this.cross.setAttribute("x2", x);
    this.cross.setAttribute("visibility", "visible");
    const tip = document.getElementById("tip");
    tip.replaceChildren(element("strong", {}, head), ...rows.map(([colour, name, value]) => {
      const row = element("div"), label = element("span", {class: `name s${colour}`});
      label.append(element("i"), element("span", {}, name));
      row.append(label, element("span", {}, value));
      return row;
    }));
    tip.hidden = false;
    const left = event.clientX + 14, top = event.clientY + 14;
    tip.style.left = `${Math.max(4, left + tip.offsetWidth > innerWidth - 4 ? event.clientX - tip.offsetWidth - 14 : left)}px`;
    tip.style.top = `${Math.max(4, Math.min(top, innerHeight - tip.offsetHeight - 4))}px`;
  }

  leave() {
    document.getElementById("tip").hidden = true;
    this.cross?.setAttribute("visibility", "hidden");
  }
}
