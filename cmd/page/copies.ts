import { age, copied, size } from "../../lib/core/amounts.ts";
import { quoted } from "../../lib/io/script.ts";
import type { StatusAnswer } from "../../lib/observe/status.ts";
import { html, type Part } from "./html.ts";
import type { Tone } from "./map.ts";
import { table, toned } from "./parts.ts";

type Running = NonNullable<StatusAnswer["copies"]>[number];
type Listed = NonNullable<NonNullable<StatusAnswer["inventory"]>[number]["copies"]>[number];
type Recorded = Listed & { readonly state: Exclude<Listed["state"], "finished"> };

/** A finished copy is a volume, which another table has. */
const isUnfinished = (copy: Listed): copy is Recorded => copy.state !== "finished";

/** A copy: its state in this process, and its record; one of the two may be absent. */
interface Copy {
  readonly target: string;
  readonly running: Running | undefined;
  readonly recorded: Recorded | undefined;
}

/** The condition of a copy, and what to do about it. */
interface Judgement {
  readonly tone: Tone;
  readonly words: string;
  /** Why it makes no progress. */
  readonly reason?: string | undefined;
  readonly advice?: string | undefined;
}

const columns = [
  ...[{ title: "New volume" }, { title: "Source" }, { title: "State" }, { title: "Copied", kind: "number" }],
  ...[
    { title: "Rate", kind: "number minor" },
    { title: "Method", kind: "minor" },
    { title: "What to do", kind: "text" },
  ],
];

/** All copies that run, wait or pause, the worst first. Of a copy in another process, only the record is known. */
function judgedCopies({ copies: running = [], inventory = [], now }: StatusAnswer) {
  const recorded = new Map(
    inventory.flatMap(({ copies: all = [] }) => all.filter(isUnfinished)).map(each => [each.target, each]),
  );
  const ofProcess = new Map(running.map(each => [each.target, each]));
  const all = [...new Set([...ofProcess.keys(), ...recorded.keys()])].map(target => {
    const copy: Copy = { target, running: ofProcess.get(target), recorded: recorded.get(target) };
    return { copy, judgement: judged(copy, now) };
  });
  const rank: Readonly<Record<Tone, number>> = { bad: 0, warning: 1, good: 2 };
  return all.sort((a, b) => rank[a.judgement.tone] - rank[b.judgement.tone]);
}

/** The table of copies; undefined if there are none. */
export function copies(answer: StatusAnswer): Part {
  const all = judgedCopies(answer);
  if (all.length === 0) return undefined;
  const rows = all.map(({ copy, judgement }) => rowOf(copy, judgement));
  return table("Copies between connections", columns, rows);
}

/** The copies that fail or are stalled. */
export const copyProblems = (answer: StatusAnswer) =>
  judgedCopies(answer).flatMap(({ copy, judgement: { tone, words, reason, advice } }) =>
    tone === "bad"
      ? [{ target: copy.target, text: `copy: ${words}${reason === undefined ? "" : `: ${reason}`}`, advice }]
      : [],
  );

function rowOf({ target, running, recorded }: Copy, { tone, words, reason, advice }: Judgement): readonly Part[] {
  const { done = 0, total = 0 } = running ?? recorded ?? {};
  const perSecond = running?.perSecond ?? 0;
  return [
    target,
    recorded?.source || running?.from,
    toned(tone, words),
    amount(done, total),
    perSecond > 0 && `${size(perSecond)}/s`,
    running?.method ?? recorded?.method,
    [reason && html`<p>${reason}</p>`, advice ? html`<p>${advice}</p>` : html`<p class="dim">nothing</p>`],
  ];
}

function amount(done: number, total: number): Part {
  if (total === 0) return done > 0 && size(done);
  const percent = Math.min(100, Math.floor((done / total) * 100));
  return html`${copied(done, total)}<br><progress max="100" value="${percent}" aria-label="copied">${percent} %</progress>`;
}

function judged({ target, running, recorded }: Copy, now: string): Judgement {
  if (running) return ofRunning(running, target);
  return recorded ? ofRecord(recorded, now) : { tone: "warning", words: "unknown" };
}

/** The command that cancels a copy, with the name quoted for a shell. */
const cancelling = (target: string): string => `csimux copies cancel ${quoted(target)}`;

function ofRunning({ state, ahead = 0, stalled = false, fault }: Running, target: string): Judgement {
  const reason = fault;
  if (state === "waiting") return { tone: "good", words: `waiting, ${ahead} ahead`, reason };
  if (stalled) {
    const advice = "check both storage systems, the network and the log of csimux; it continues by itself";
    return { tone: "bad", words: "copying, but no byte for 10 minutes", reason, advice };
  }
  if (state === "copying") return { tone: "good", words: "copying", reason };
  const advice = `correct what the message names: it is tried again by itself, and keeps what has arrived. To end it: ${cancelling(target)}`;
  return { tone: "bad", words: "failing", reason, advice };
}

/** The commands of `csimux move` that continue a copy and that remove it. */
const moving = "csimux move copy continues it, csimux move undo removes it";

function ofRecord({ target, state, role, fault, asked }: Recorded, now: string): Judgement {
  const reason = fault || undefined;
  const isMove = role === "move";
  const lastAsked = askedText(asked, now);
  switch (state) {
    case "copying": {
      const next = isMove ? "csimux move copy" : "a request of its claim";
      const advice = `nothing while that csimux runs; if it was killed, ${next} takes over after about 90 s`;
      return { tone: "good", words: `copying, by another csimux${lastAsked}`, reason, advice };
    }
    case "ready": {
      const advice = isMove
        ? "csimux move switch makes it the volume"
        : "the next request of its claim makes it the volume";
      return { tone: "good", words: `all data has arrived${lastAsked}`, reason, advice };
    }
    case "paused": {
      const gone = `the next request of its claim continues it. If the claim no longer exists: ${cancelling(target)}`;
      return { tone: "warning", words: `paused${lastAsked}`, reason, advice: isMove ? moving : gone };
    }
    case "cancelled": {
      const advice = isMove
        ? undefined
        : "delete its claim: the next request is refused, and a later one begins a new copy";
      return { tone: "warning", words: "cancelled", reason, advice };
    }
    case "unreadable": {
      const advice = "update csimux, if a newer one has made it; otherwise see the message";
      return { tone: "bad", words: "its record cannot be used", reason, advice };
    }
  }
}

/** A record may contain any number. */
function askedText(asked: number, now: string): string {
  const at = new Date(asked * 1_000);
  return asked > 0 && Number.isFinite(at.getTime()) ? `, last asked for ${age(at.toISOString(), now)} ago` : "";
}
