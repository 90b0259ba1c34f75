// Elements. Whatever comes from the data enters the page through here: as text or attribute, never as markup.

const byId = (id) => document.getElementById(id);

/** An HTML element; `on*` properties are listeners, `style` an object, the rest attributes. */
function h(tag, properties = {}, ...children) {
  return fill(document.createElement(tag), properties, children);
}

/** The same for SVG. */
function s(tag, properties = {}, ...children) {
  return fill(document.createElementNS("http://www.w3.org/2000/svg", tag), properties, children);
}

function fill(element, properties, children) {
  for (const [name, value] of Object.entries(properties)) {
    if (value === null || value === undefined || value === false) continue;
    if (name.startsWith("on")) element.addEventListener(name.slice(2), value);
    else if (name === "style") for (const [key, text] of Object.entries(value)) element.style.setProperty(key, text);
    else element.setAttribute(name, value === true ? "" : value);
  }
  element.append(...children.flat(Infinity).filter((child) => child !== null && child !== undefined));
  return element;
}

/** A drawing from the data. As an image it can neither run scripts nor reach the network. */
function picture(svgText, label, className = "drawing") {
  const bytes = new TextEncoder().encode(svgText);
  let binary = "";
  for (let i = 0; i < bytes.length; i += 8192) binary += String.fromCharCode(...bytes.subarray(i, i + 8192));
  return h("img", { class: className, alt: label, src: `data:image/svg+xml;base64,${btoa(binary)}` });
}

function show(id) {
  byId(id).hidden = false;
}
