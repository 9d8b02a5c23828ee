import { expect, test } from "bun:test";
import { pageText } from "../../cmd/page/page.ts";
import type { StatusAnswer } from "../../lib/observe/status.ts";
import { answerOf, connection, copyRecorded, copyRunning } from "./answers.ts";

type Recorded = ReturnType<typeof copyRecorded>;

const answer = (copies: StatusAnswer["copies"], recorded: readonly Recorded[] = []): StatusAnswer =>
  answerOf([connection("nas2")], 1, {
    copies,
    inventory: [{ connection: "nas2", volumes: [], copies: recorded, problem: undefined }],
  });

/** The cells of the table of copies, each as text. */
function rowsOf(given: StatusAnswer): readonly (readonly string[])[] {
  const text = pageText(given, undefined);
  const [, section = ""] = /<h2 id="copies"[^>]*>([\s\S]*?)<\/section>/.exec(text) ?? [];
  return [...section.matchAll(/<tr data-row="">([\s\S]*?)<\/tr>/g)].map(([, row = ""]) =>
    [...row.matchAll(/<t[hd][^>]*>([\s\S]*?)<\/t[hd]>/g)].map(([, cell = ""]) =>
      cell
        .replaceAll("<br>", " ")
        .replace(/<\/p><p[^>]*>/g, " | ")
        .replace(/<[^>]*>/g, "")
        .trim(),
    ),
  );
}

const cell = (rows: ReturnType<typeof rowsOf>, column: number) => rows.map(row => row[column]);

test("a copy that runs has source, target, state, progress and rate, and nothing is to be done", () => {
  expect(rowsOf(answer([copyRunning("v:nas2/pvc-1")]))).toEqual([
    ["v:nas2/pvc-1", "nas1", "● copying", "37.0 GiB of 120 GiB 30 %", "112 MiB/s", "zfs-send", "nothing"],
  ]);
  const unknown = copyRunning("v:nas2/pvc-1", { method: "rsync", done: 0, total: 0, perSecond: 0 });
  expect(rowsOf(answer([unknown]))[0]?.slice(3, 5)).toEqual(["", ""]);
  expect(pageText(answer([]), undefined)).not.toContain('id="copies"');
});

test("what fails comes first and says why and what to do; what waits says behind how many", () => {
  const rows = rowsOf(
    answer([
      copyRunning("v:nas2/a", { state: "waiting", ahead: 3 }),
      copyRunning("v:nas2/b", { state: "failing", fault: "out of space; free space on the target" }),
      copyRunning("v:nas2/c", { stalled: true }),
    ]),
  );
  expect(cell(rows, 0)).toEqual(["v:nas2/b", "v:nas2/c", "v:nas2/a"]);
  expect(cell(rows, 2)).toEqual(["✕ failing", "✕ copying, but no byte for 10 minutes", "● waiting, 3 ahead"]);
  expect(rows[0]?.[6]).toBe(
    "out of space; free space on the target | correct what the message names: it is tried again by itself, and keeps what has arrived. To end it: csimux copies cancel v:nas2/b",
  );
  expect(rows[1]?.[6]).toContain("check both storage systems");
});

test("copies that nothing works on come from their records, each with what continues or ends it", () => {
  const states = ["paused", "copying", "ready", "cancelled", "unreadable", "finished"] as const;
  const rows = rowsOf(
    answer(
      [],
      states.map(state =>
        copyRecorded(`v:nas2/${state}`, { state, ...(state === "unreadable" && { fault: "newer" }) }),
      ),
    ),
  );
  const said = Object.fromEntries(rows.map(row => [row[0], `${row[2]}: ${row[6]}`]));
  expect(cell(rows, 0)).toEqual([
    ...["v:nas2/unreadable", "v:nas2/paused", "v:nas2/cancelled", "v:nas2/copying", "v:nas2/ready"],
  ]);
  expect(said).toEqual({
    "v:nas2/paused":
      "▲ paused, last asked for 60m ago: the next request of its claim continues it. If the claim no longer exists: csimux copies cancel v:nas2/paused",
    "v:nas2/copying":
      "● copying, by another csimux, last asked for 60m ago: nothing while that csimux runs; if it was killed, a request of its claim takes over after about 90 s",
    "v:nas2/ready": "● all data has arrived, last asked for 60m ago: the next request of its claim makes it the volume",
    "v:nas2/cancelled": "▲ cancelled: delete its claim: the next request is refused, and a later one begins a new copy",
    "v:nas2/unreadable":
      "✕ its record cannot be used: newer | update csimux, if a newer one has made it; otherwise see the message",
  });
  expect(rows[1]?.[1]).toBe("v:nas1/pvc-source");
});

test("a copy of csimux move names its own commands", () => {
  const move = (state: Recorded["state"]) => copyRecorded(`v:nas2/${state}`, { state, role: "move" });
  expect(cell(rowsOf(answer([], [move("paused"), move("ready"), move("cancelled")])), 6)).toEqual([
    "csimux move copy continues it, csimux move undo removes it",
    "nothing",
    "csimux move switch makes it the volume",
  ]);
});

test("a copy that runs here and has a record is one row, with the source of the record and the state of the process", () => {
  const rows = rowsOf(answer([copyRunning("v:nas2/a")], [copyRecorded("v:nas2/a", { done: 1 })]));
  expect(rows.map(row => row.slice(0, 4))).toEqual([
    ["v:nas2/a", "v:nas1/pvc-source", "● copying", "37.0 GiB of 120 GiB 30 %"],
  ]);
});

test("a hostile name is one word of the command that is shown", () => {
  const [row] = rowsOf(answer([], [copyRecorded("v:nas2/x; rm -rf ~")]));
  expect(row?.[6]).toEndWith("csimux copies cancel &#39;v:nas2/x; rm -rf ~&#39;");
});

test("what fails or stands still is a problem, too, and what pauses is none", () => {
  const many = Array.from({ length: 15 }, (_, index) =>
    copyRunning(`v:nas2/f${index}`, { state: "failing", fault: "full" }),
  );
  const problemsIn = (given: StatusAnswer) => pageText(given, undefined).split('id="connections"')[0] ?? "";
  expect(problemsIn(answer([copyRunning("v:nas2/a")], [copyRecorded("v:nas2/b")]))).toContain("No problems are known.");
  const text = problemsIn(answer(many));
  expect(text).toContain("<p>copy: failing: full</p>");
  expect(text).toContain("csimux copies cancel v:nas2/f9");
  expect(text).not.toContain("v:nas2/f10");
  expect(text).toContain("and 5 more copies, below");
});
