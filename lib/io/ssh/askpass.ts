import { connect } from "node:net";

/** Names the socket at which the askpass program gets its answer. */
export const askpassVariable = "CSIMUX_ASKPASS";

/**
 * The part of the askpass program (ssh(1), SSH_ASKPASS): asks the csimux that started ssh, at its socket, for the answer to a prompt.
 * Resolves with undefined when there is none.
 */
export function askForSecret(socketPath: string, prompt: string): Promise<string | undefined> {
  return new Promise(resolve => {
    let word = "";
    const socket = connect(socketPath, () => socket.write(`${prompt.replaceAll("\n", " ")}\n`));
    socket.setEncoding("utf8");
    socket.on("data", chunk => {
      word += chunk;
    });
    socket.on("error", () => resolve(undefined));
    socket.on("close", () => resolve(word === "" ? undefined : word));
  });
}
