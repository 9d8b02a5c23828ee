import { expect, test } from "bun:test";
import { readFileSync } from "node:fs";
import { parse } from "yaml";
import { CallTracker } from "../../lib/observe/call-tracker.ts";
import { openMetrics } from "../../lib/observe/metrics.ts";
import { statusOf } from "../../lib/observe/status.ts";

const read = (name: string) => readFileSync(new URL(`../../examples/monitoring/${name}`, import.meta.url), "utf8");

/** Every metric that csimux serves, as Prometheus calls its series. */
async function served(): Promise<ReadonlySet<string>> {
  const metrics = openMetrics(() => 0);
  const facts = { name: "c", version: "1", commit: "1", modes: [], node: undefined, started: 0 };
  const page = await metrics.text(statusOf(facts, {}, new CallTracker()));
  const names = [...page.matchAll(/^# TYPE (\S+) (\S+)$/gm)].flatMap(([, name = "", type]) => {
    if (type === "histogram") return ["_bucket", "_sum", "_count"].map(end => `${name}${end}`);
    return [type === "counter" ? `${name}_total` : name];
  });
  return new Set(names);
}

const named = (text: string): readonly string[] => [...new Set(text.match(/\bcsimux_\w+/g) ?? [])];

test.each(["alerts.yaml", "dashboard.json"])("%s asks only for what csimux serves", async name => {
  const names = named(read(name));
  const known = await served();
  expect(names.length).toBeGreaterThan(5);
  expect(names.filter(each => !known.has(each))).toEqual([]);
});

test("the page on monitoring names every metric", async () => {
  const told = named(read("README.md"));
  const base = (name: string) => name.replace(/_(bucket|sum|count)$/, "");
  expect([...(await served())].filter(each => !told.includes(base(each)))).toEqual([]);
});

test("every alert says what it is, how bad it is and what to do", () => {
  const { groups } = parse(read("alerts.yaml")) as { groups: { rules: Record<string, Record<string, string>>[] }[] };
  const rules = groups.flatMap(group => group.rules);
  expect(rules.length).toBeGreaterThan(5);
  for (const { labels, annotations } of rules) {
    expect(["warning", "critical"]).toContain(labels?.["severity"] ?? "");
    expect(annotations?.["summary"]).toBeString();
    expect(annotations?.["description"]).toBeString();
  }
});
