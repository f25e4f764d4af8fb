// A report in a headless Chromium: its plots have the points, it fits a phone, and it can be read in the dark.
// node browser.mjs REPORT FOLDER, in a folder with @sparticuz/chromium and puppeteer-core; screenshots go to FOLDER.
import chromium from "@sparticuz/chromium";
import puppeteer from "puppeteer-core";
import { pathToFileURL } from "node:url";

const [report, folder] = process.argv.slice(2);
const browser = await puppeteer.launch({
  args: [...chromium.args, "--no-sandbox"],
  executablePath: await chromium.executablePath(),
  headless: "shell",
});
const failures = [];
const views = [
  { name: "desk", width: 1200, height: 900, scheme: "light" },
  { name: "phone", width: 390, height: 844, scheme: "light" },
  { name: "dark", width: 390, height: 844, scheme: "dark" },
];
for (const { name, width, height, scheme } of views) {
  const page = await browser.newPage();
  page.on("pageerror", (e) => failures.push(`${name}: ${e}`));
  page.on("request", (r) => r.url().startsWith("file:") || failures.push(`${name}: the page asks for ${r.url()}`));
  await page.setViewport({ width, height });
  await page.emulateMediaFeatures([{ name: "prefers-color-scheme", value: scheme }]);
  await page.goto(pathToFileURL(report).href);
  const found = await page.evaluate(() => {
    const luminance = (colour) => {
      const [r, g, b] = colour.match(/[\d.]+/g).map((c) => c / 255).map((c) => (c <= 0.04045 ? c / 12.92 : ((c + 0.055) / 1.055) ** 2.4));
      return 0.2126 * r + 0.7152 * g + 0.0722 * b;
    };
    const contrast = (a, b) => (Math.max(a, b) + 0.05) / (Math.min(a, b) + 0.05);
    const body = getComputedStyle(document.body);
    const lost = [...document.querySelectorAll("circle")].filter((circle) => {
      const [dot, plot] = [circle.getBoundingClientRect(), circle.closest("svg").getBoundingClientRect()];
      return dot.width === 0 || dot.left < plot.left || dot.right > plot.right || dot.top < plot.top || dot.bottom > plot.bottom;
    });
    const cut = [...document.querySelectorAll("svg text")].filter((text) => {
      const [box, plot] = [text.getBoundingClientRect(), text.closest("svg").getBoundingClientRect()];
      return box.left < plot.left - 1 || box.right > plot.right + 1 || box.top < plot.top - 1 || box.bottom > plot.bottom + 1;
    });
    // The text beside an axis, and the numbers along it.
    const covered = [...document.querySelectorAll("svg text[transform]")].filter((label) => {
      const own = label.getBoundingClientRect();
      return [...label.closest("svg").querySelectorAll("text:not([transform])")].some((other) => {
        const box = other.getBoundingClientRect();
        return box.left < own.right - 1 && own.left < box.right - 1 && box.top < own.bottom && own.top < box.bottom;
      });
    });
    // Pieces of work of the host's techniques.
    const bars = [...document.querySelectorAll("#host rect.bar")];
    const outside = bars.filter((bar) => {
      const [box, plot] = [bar.getBoundingClientRect(), bar.closest("svg").getBoundingClientRect()];
      return box.width === 0 || box.left < plot.left - 1 || box.right > plot.right + 1 || box.top < plot.top || box.bottom > plot.bottom;
    });
    // A trial has a row in the list, and a point in each of two plots.
    const rows = document.querySelectorAll("details tr[id]").length;
    return {
      lost: lost.length,
      cut: cut.map((text) => text.textContent),
      covered: covered.map((text) => text.textContent),
      rows,
      techniques: document.querySelectorAll("#host svg").length,
      bars: bars.length,
      outside: outside.length,
      points: document.querySelectorAll("circle.trial").length,
      overflow: document.documentElement.scrollWidth - innerWidth,
      contrast: contrast(luminance(body.color), luminance(body.backgroundColor)),
      dark: luminance(body.backgroundColor) < 0.2,
      text: parseFloat(body.fontSize),
    };
  });
  console.log(name, JSON.stringify(found));
  if (found.lost) failures.push(`${name}: ${found.lost} points lie outside of their plots`);
  if (found.cut.length) failures.push(`${name}: texts are cut: ${found.cut.join(" | ")}`);
  if (found.covered.length) failures.push(`${name}: texts beside axes lie over numbers: ${found.covered.join(" | ")}`);
  if (found.techniques < 4 || found.bars < 3 * found.techniques) failures.push(`${name}: ${found.bars} pieces of work of ${found.techniques} techniques`);
  if (found.outside) failures.push(`${name}: ${found.outside} pieces of work lie outside of their timelines`);
  if (!found.rows || found.points !== 2 * found.rows) failures.push(`${name}: ${found.points} points for ${found.rows} trials`);
  if (found.overflow > 0) failures.push(`${name}: the page is ${found.overflow} pixels too wide`);
  if (found.contrast < 7) failures.push(`${name}: text has a contrast of ${found.contrast}`);
  if (found.dark !== (scheme === "dark")) failures.push(`${name}: the paper is ${found.dark ? "dark" : "bright"}`);
  if (found.text < 16) failures.push(`${name}: text of ${found.text} pixels`);
  await page.screenshot({ path: `${folder}/report-${name}.png` });
  await page.close();
}
await browser.close();
failures.forEach((f) => console.error(f));
process.exit(failures.length ? 1 : 0);
