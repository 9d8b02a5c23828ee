import { afterEach, expect, test } from "bun:test";
import { humanLine, jsonLine, type LogLine, leveledLog, RepeatedLines } from "../../lib/core/log.ts";
import { keepSecret, masked, withoutKnownSecrets } from "../../lib/core/secrets.ts";
import { ApiError } from "../../lib/drivers/truenas/api-error.ts";

const releases: (() => void)[] = [];
const hide = (...words: string[]): void => void releases.push(keepSecret(words));
afterEach(() => {
  for (const release of releases.splice(0)) release();
});

const lines = (write: (log: ReturnType<typeof leveledLog>) => void): readonly string[] => {
  const written: LogLine[] = [];
  write(leveledLog("debug", line => void written.push(line)));
  return written.flatMap(line => [jsonLine(line), humanLine(line)]);
};

test("an error in a log line becomes its messages, without a key that a server repeated", () => {
  hide("7-hunter2 key");
  const cause = new ApiError("auth.login_ex", 22, "refused: 7-hunter2 key", [
    { attribute: "login_data.7-hunter2 key", message: "7-hunter2 key is wrong", errno: 22 },
  ]);
  const error = new Error("outer 7-hunter2%20key", { cause });
  const text = lines(log => {
    log.warn("could not remove 7-hunter2 key", { doing: "undo", cause, list: [{ deep: "a 7-hunter2 key b" }] });
    log.with({ path: "/7-hunter2 key" }).error("failed", { error });
  });
  expect(text.join("\n")).not.toContain("hunter2");
  expect(text[0]).toContain("auth.login_ex: refused: ***");
  expect(text[2]).toContain("outer ***: auth.login_ex: refused: ***");
});

test("a secret is hidden while a connection uses it, the longest first; short words are not hidden", () => {
  hide("secret", "secret-and-more", "abc");
  hide("secret");
  expect(withoutKnownSecrets("secret-and-more, secret, secre, abc, SECRET, secretsecret")).toBe(
    "***, ***, secre, abc, SECRET, ******",
  );
  releases.shift()?.();
  expect(withoutKnownSecrets("secret-and-more")).toBe("***-and-more");
  releases.shift()?.();
  expect(withoutKnownSecrets("secret-and-more")).toBe("secret-and-more");
});

test("a thousand secrets hardly slow a line down", () => {
  hide(...Array.from({ length: 1000 }, (_, n) => `secret-${n}-of-a-thousand`));
  const line = "x".repeat(400);
  const from = process.cpuUsage();
  for (let n = 0; n < 1000; n++) withoutKnownSecrets(line);
  expect(process.cpuUsage(from).user / 1000).toBeLessThan(1000);
});

test("a repeated line is written once per interval with the number suppressed; other lines are counted separately", () => {
  let now = 0;
  const repeats = new RepeatedLines(1000, () => now);
  expect(["a", "a", "b", "a"].map(line => repeats.due(line))).toEqual([0, undefined, 0, undefined]);
  now = 1000;
  expect(["a", "b", "a"].map(line => repeats.due(line))).toEqual([2, 0, undefined]);
});

test("the number of lines remembered is limited", () => {
  const repeats = new RepeatedLines(1000, () => 0);
  for (let i = 0; i < 1001; i++) repeats.due(`line ${i}`);
  expect(repeats.due("line 0")).toBe(0);
  expect(repeats.due("line 1000")).toBeUndefined();
});

test.each([
  ["e", "mkfs.ext4: exit code 1", "mkfs.ext4: exit code 1"],
  ["e", "login as e:e failed, option pass=e", "login as ***:*** failed, option pass=***"],
  ["1", "exit code 1 after 10 s", "exit code *** after 10 s"],
  [".*", "password .* refused", "password *** refused"],
  ["a-b", "a-b, xa-b, a-bc", "***, xa-b, a-bc"],
  ["pass", "passwords: pass", "***words: ***"],
])("a secret of less than four characters is masked as a separate word: %p", (secret, text, expected) => {
  expect(masked(text, [secret])).toBe(expected);
});
