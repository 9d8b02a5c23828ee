import type { CopyAnswer, CopyState } from "../../../lib/copies/protocol.ts";
import { copied, duration, size, timeLeft } from "../../../lib/core/amounts.ts";
import { parseHandle } from "../../../lib/core/handle.ts";
import { tableWithin } from "../../terminal/table.ts";
import { visible } from "../../terminal/terminal.ts";

const width = 120;

const connectionOf = (id: string): string =>
  (parseHandle(id, "volume") ?? parseHandle(id, "snapshot"))?.connection ?? "?";

/** The listing for people; `now` in milliseconds since 1970. */
export function copiesText(copies: readonly CopyState[], now: number): string {
  if (copies.length === 0) return "no copies\n";
  const rows = copies.map(copy => [
    visible(copy.target),
    visible(connectionOf(copy.source)),
    copy.method ?? "-",
    `${copy.ahead === undefined ? copy.state : `waiting, ${copy.ahead} ahead`}${copy.pass > 0 ? ` (pass ${copy.pass + 1})` : ""}`,
    copied(copy.done, copy.total),
    copy.rate > 0n ? `${size(copy.rate)}/s` : "-",
    timeLeft(copy.done, copy.total, copy.rate) ?? "-",
    duration(Math.round(now / 1000) - copy.asked),
    visible(copy.fault || "-"),
  ]);
  return tableWithin(width, [
    ["VOLUME", "FROM", "METHOD", "STATE", "COPIED", "RATE", "LEFT", "ASKED", "FAULT"],
    ...rows,
  ]);
}

/** The end of a request for people. */
export function doneText({
  target,
  method,
  instead,
  pass,
  volume,
}: Extract<CopyAnswer, { readonly kind: "done" }>): string {
  const lines = [
    ...(target === undefined ? [] : [`volume ${target}`]),
    ...(method === undefined ? [] : [`method: ${method}`]),
    ...(instead ?? []),
    ...(pass === undefined
      ? []
      : [
          `pass ${pass.number + 1} copied ${size(pass.bytes)} in ${Math.round(pass.seconds)} s`,
          ...(pass.continued
            ? ["this pass began before this command: after the pods have stopped, repeat the command before finish"]
            : []),
        ]),
    ...(volume === undefined
      ? []
      : [`volume ${volume.handle} is complete: ${size(volume.bytes)}, ${JSON.stringify(volume.context)}`]),
  ];
  return lines.length === 0 ? "done\n" : lines.map(line => `${visible(line)}\n`).join("");
}
