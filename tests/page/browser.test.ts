import { afterAll, beforeAll, describe, expect, test } from "bun:test";
import { mkdtemp, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { pageText } from "../../cmd/page/page.ts";
import { answerOf, connection, copyRunning, dead, hostile, large } from "./answers.ts";
import { Browser, browserProgram } from "./browser.ts";

/** Needs a browser without a screen, such as Debian's package chromium-headless-shell; `make test` installs none. */
describe.skipIf(browserProgram === undefined)("the status page in a browser", () => {
  let folder = "";
  let browser: Browser;
  const url = (name: string) => `file://${join(folder, name)}.html`;

  beforeAll(async () => {
    folder = await mkdtemp(join(tmpdir(), "csimux-page-"));
    const copies = [
      copyRunning("v:nas1/pvc-1"),
      copyRunning("v:nas1/pvc-2", { state: "failing", fault: "out of space" }),
    ];
    const small = answerOf([connection("nas1", { accessibleTopology: ["zone=a"] }), dead("nas2")], 3, { copies });
    const pages = { small: { answer: small, cluster: undefined }, large: large(), hostile: hostile() };
    for (const [name, { answer, cluster }] of Object.entries(pages))
      await writeFile(join(folder, `${name}.html`), pageText(answer, cluster));
    browser = await Browser.start();
  }, 180_000);
  afterAll(async () => {
    await browser?.end();
    await rm(folder, { recursive: true, force: true });
  });

  test("fits a phone and a desk in light and dark, without errors or violations of its policy", async () => {
    for (const name of ["small", "large"]) {
      for (const scheme of ["light", "dark"] as const) {
        for (const width of [360, 1280]) {
          await browser.look(width, 900, scheme);
          await browser.open(url(name));
          expect(await browser.evaluate<number>("document.documentElement.scrollWidth")).toBeLessThanOrEqual(width);
          // The table of connections need not be scrolled either.
          const table = "document.querySelector('[aria-label=Connections]')";
          expect(await browser.evaluate<number>(`${table}.scrollWidth - ${table}.clientWidth`)).toBeLessThanOrEqual(0);
          const [background, ink] = await browser.evaluate<string[]>(
            "[getComputedStyle(document.body).backgroundColor, getComputedStyle(document.body).color]",
          );
          const brightness = (colour = "") => Number(/\d+/.exec(colour)?.[0]);
          expect(brightness(background) > brightness(ink)).toBe(scheme === "light");
        }
      }
    }
    expect(browser.messages).toEqual([]);
  }, 180_000);

  test("hostile names run nothing and add no element", async () => {
    await browser.look(1280, 900, "light");
    await browser.open(url("hostile"));
    expect(await browser.evaluate<string>("typeof window.pwned")).toBe("undefined");
    expect(await browser.evaluate<number>("document.querySelectorAll('img, script').length")).toBe(1);
    expect(await browser.evaluate<number>("document.querySelectorAll('main section').length")).toBe(8);
    expect(browser.messages).toEqual([]);
  }, 120_000);

  test("the filter shows the entries that have all words and opens their connection, among 5,100 volumes", async () => {
    await browser.open(url("large"));
    const filtered = async (text: string) => {
      const before = "const box = document.querySelector('.filter'), out = box.querySelector('[role=status]');";
      const type = `box.querySelector('input').value = ${JSON.stringify(text)}; box.querySelector('input').dispatchEvent(new Event('input'));`;
      const wait =
        "new Promise(done => new MutationObserver(() => done(out.textContent)).observe(out, { childList: true }))";
      return browser.evaluate<string>(`(() => { ${before} const told = ${wait}; ${type} return told; })()`);
    };
    expect(await filtered("BERLIN-07 pvc-001")).toStartWith("10 of 5");
    const open = "[...document.querySelectorAll('details')].filter(each => each.open && !each.hidden).length";
    expect(await browser.evaluate<number>(open)).toBe(1);
    expect(
      await browser.evaluate<number>("[...document.querySelectorAll('section')].filter(each => !each.hidden).length"),
    ).toBe(1);
    expect(await filtered("")).toBe("");
    expect(await browser.evaluate<number>("document.querySelectorAll('[hidden]').length")).toBe(0);
  }, 120_000);

  test("without a script, everything can be read and the filter is not offered", async () => {
    await browser.send("Emulation.setScriptExecutionDisabled", { value: true });
    try {
      await browser.open(url("small"));
      const { root } = (await browser.send("DOM.getDocument", { depth: -1 })) as { root: { nodeId: number } };
      const { nodeId } = await browser.send("DOM.querySelector", { nodeId: root.nodeId, selector: ".filter" });
      const { outerHTML } = (await browser.send("DOM.getOuterHTML", { nodeId })) as { outerHTML: string };
      expect(outerHTML).toMatch(/^<div [^>]*hidden/);
      expect(await roles()).toContain("searchbox: false");
    } finally {
      await browser.send("Emulation.setScriptExecutionDisabled", { value: false });
    }
  }, 120_000);

  /** Whether the page has a search box for readers, and the roles and names of what it has. */
  async function roles(): Promise<readonly string[]> {
    const { nodes } = (await browser.send("Accessibility.getFullAXTree")) as {
      nodes: { ignored: boolean; role?: { value: string }; name?: { value: string } }[];
    };
    const shown = nodes.filter(each => !each.ignored);
    return [
      `searchbox: ${shown.some(({ role }) => role?.value === "searchbox")}`,
      ...shown.map(({ role, name }) => `${role?.value} ${name?.value ?? ""}`),
    ];
  }

  test("a screen reader finds headings, named tables, regions and controls, and the picture in words", async () => {
    await browser.open(url("small"));
    const all = await roles();
    for (const wanted of [
      ...[
        "heading csimux.storage",
        "heading Problems",
        "heading Volumes",
        "searchbox Filter by name",
        "navigation Sections",
      ],
      ...["region Copies between connections", "rowheader v:nas1/pvc-1", "progressbar copied"],
      ...["region Connections", "region Map of places and connections", "rowheader nas2", "columnheader State"],
      "image Which places reach which connections nas1: zone=a. nas2 (unreachable): zone=a.",
    ])
      expect(all).toContain(wanted);
    const nameless = /^(?:link|button|searchbox|region|image|heading|progressbar|DisclosureTriangle) $/;
    expect(all.filter(each => nameless.test(each))).toEqual([]);
  }, 120_000);

  test("the keyboard reaches the skip link, the sections, the filter, what scrolls and each list of volumes", async () => {
    await browser.open(url("small"));
    const reached: string[] = [];
    for (let index = 0; index < 20; index++) {
      for (const type of ["keyDown", "keyUp"])
        await browser.send("Input.dispatchKeyEvent", { type, key: "Tab", code: "Tab", windowsVirtualKeyCode: 9 });
      const what = "document.activeElement.className + ' ' + document.activeElement.tagName";
      reached.push((await browser.evaluate<string>(what)).trim());
    }
    expect(reached[0]).toBe("skip A");
    for (const wanted of ["A", "INPUT", "wide DIV", "SUMMARY"]) expect(reached).toContain(wanted);
  }, 120_000);
});
