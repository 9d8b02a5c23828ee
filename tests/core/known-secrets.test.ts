import { afterEach, expect, test } from "bun:test";
import { keepSecret, withoutKnownSecrets } from "../../lib/core/known-secrets.ts";
import { humanLine, jsonLine, type LogLine, leveledLog } from "../../lib/core/log.ts";
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

test("an error in a line of the log is its messages, and shows no key that a server repeated anywhere in it", () => {
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

test("a word is hidden as long as anybody knows it, the longest first, and short ones are left alone", () => {
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

test("a thousand secrets cost a line little", () => {
  hide(...Array.from({ length: 1000 }, (_, n) => `secret-${n}-of-a-thousand`));
  const line = "x".repeat(400);
  const from = performance.now();
  for (let n = 0; n < 1000; n++) withoutKnownSecrets(line);
  expect(performance.now() - from).toBeLessThan(1000);
});
