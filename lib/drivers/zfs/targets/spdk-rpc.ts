import { CsiError } from "../../../core/errors.ts";
import { isMapping } from "../../../core/mapping.ts";
import type { Outputs } from "../../../io/script.ts";
import { behind } from "../cli/steps.ts";
import { type PlainStep, toolStep } from "./guard.ts";
import zvol from "./host/zvol.py" with { type: "text" };

/** One call of SPDK's JSON-RPC (spdk.io, "JSON-RPC"). */
export interface RpcCall {
  readonly method: string;
  readonly params?: Readonly<Record<string, unknown>>;
  /** Only the objects of the list with this member are returned. */
  readonly only?: readonly [key: string, value: string];
  /** The answer is a list; no further call is made unless it is empty. */
  readonly empty?: true;
}

/** The result or error of a call. */
export type RpcAnswer = { readonly result: unknown } | { readonly error: { readonly message: string } };

/** Where the configuration is saved. */
export interface RpcSaving {
  readonly file: string;
  /** The target that was changed; nothing of it is kept that SPDK does not have. */
  readonly own: string;
}

/** The zvol that a device has to be, and where the kernel shows its block devices. */
export interface RpcZvol {
  readonly device: string;
  readonly dataset: string;
  readonly blocks: string;
}

/**
 * A JSON-RPC client in Python, which SPDK's own tools need, too. Reads {"socket", "calls", "save", "zvol"}; writes a JSON list of answers up
 * to the first error. "save": the file that then receives the configuration, as SPDK's rpc.py save_config writes it. Other subsystems that
 * are saved and that SPDK lacks stay saved, with their devices: it may have been restarted, and not have loaded them yet. "zvol": as
 * require_device of host/common.py, no call is made while the link of a removed zvol of the same name leads to another one.
 */
const client = `${zvol}
import json, os, socket, sys
ask = json.load(sys.stdin)
def listed(parts):
    return {one.get("subsystem"): one.get("config") or [] for one in parts}
def said(each, key):
    return (each.get("params") or {}).get(key)
def kept(before, parts, own):
    def nqns(part): return {said(one, "nqn") for one in part.get("nvmf", []) if one.get("method") == "nvmf_create_subsystem"}
    lost = nqns(before) - nqns(listed(parts)) - {own}
    spaces = [said(one, "namespace") or {} for one in before.get("nvmf", []) if said(one, "nqn") in lost]
    there = {said(one, "name") for one in listed(parts).get("bdev", [])}
    disks = {one.get("bdev_name") for one in spaces} - there - {None, own}
    for part in parts:
        old = before.get(part["subsystem"], [])
        more = [one for one in old if said(one, "nqn") in lost or said(one, "name") in disks]
        if more: part["config"] = (part["config"] or []) + more
zvol = ask.get("zvol")
if zvol and zvol_of(zvol["device"]) not in (None, zvol["dataset"]):
    disk = os.path.basename(os.path.realpath(zvol["device"]))
    try:
        with open(os.path.join(zvol["blocks"], disk, "uevent"), "w") as out: out.write("change")
    except OSError: pass
    sys.exit("%s still leads to another zvol, until udev has looked again" % zvol["device"])
saved = {}
if ask.get("save"):
    try:
        with open(ask["save"]["file"]) as file: saved = listed(json.loads(file.read() or "{}").get("subsystems", []))
    except FileNotFoundError: pass
    except (ValueError, AttributeError, TypeError): sys.exit("the saved configuration %s is not as SPDK saves it; repair it, or move it away" % ask["save"]["file"])
link = socket.socket(socket.AF_UNIX)
link.settimeout(60)
link.connect(ask["socket"])
count = 0
def call(method, params=None):
    global count
    count += 1
    request = {"jsonrpc": "2.0", "id": count, "method": method}
    if params: request["params"] = params
    link.sendall(json.dumps(request).encode())
    text = b""
    while True:
        part = link.recv(1 << 20)
        if not part: raise OSError("SPDK closed the connection")
        text += part
        try: answer = json.loads(text)
        except ValueError: continue
        return {"error": answer["error"]} if "error" in answer else {"result": answer.get("result")}
answers = []
for each in ask["calls"]:
    answer = call(each["method"], each.get("params"))
    if "only" in each and "result" in answer:
        key, value = each["only"]
        answer["result"] = [one for one in answer["result"] if one.get(key) == value]
    answers.append(answer)
    if "error" in answer or (each.get("empty") and answer["result"]): break
else:
    if ask.get("save"):
        names = [one["subsystem"] for one in call("framework_get_subsystems")["result"]]
        parts = [{"subsystem": name, "config": call("framework_get_config", {"name": name})["result"]} for name in names]
        kept(saved, parts, ask["save"]["own"])
        with open(ask["save"]["file"] + ".new", "w") as out:
            json.dump({"subsystems": parts}, out, indent=2)
            out.flush()
            os.fsync(out.fileno())
        os.rename(ask["save"]["file"] + ".new", ask["save"]["file"])
print(json.dumps(answers))
`;

/** Where SPDK listens. */
export interface SpdkSocket {
  /** Precedes python3: sudo, or nothing. */
  readonly privileged: readonly string[];
  readonly socket: string;
}

/** Makes calls one after another, alone on their host. `save`: where the configuration is saved after them. `zvol`: what is proved before. */
export function rpcStep(
  name: string,
  { privileged, socket }: SpdkSocket,
  calls: readonly RpcCall[],
  save?: RpcSaving,
  zvol?: RpcZvol,
): PlainStep {
  const stdin = JSON.stringify({ socket, calls, save, zvol });
  return toolStep(name, "spdk", behind(privileged, "python3", "-c", client), { maxBytes: 4 << 20, stdin });
}

const isAnswer = (value: unknown): value is RpcAnswer =>
  isMapping(value) &&
  ("result" in value || (isMapping(value["error"]) && typeof value["error"]["message"] === "string"));

/** The answers to the calls of a step. Throws "unavailable" when SPDK was not reached or its answer cannot be read. */
export function rpcAnswers(outputs: Outputs, name: string): readonly RpcAnswer[] {
  const output = outputs.get(name);
  const answers = output?.exitCode === 0 ? parse(output.stdout) : undefined;
  if (Array.isArray(answers) && answers.every(isAnswer)) return answers;
  const line = output?.stderr.trim().split("\n").at(-1) ?? "";
  throw new CsiError("unavailable", `cannot reach SPDK: ${line.slice(0, 300) || "no answer"}`);
}

function parse(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    return undefined;
  }
}
