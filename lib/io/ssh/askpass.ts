import { connect } from "node:net";

/** The variable with the path of the socket from which the askpass program gets its answer. */
export const askpassVariable = "CSIMUX_ASKPASS";

/**
 * The askpass program (ssh(1), SSH_ASKPASS): asks the csimux process that started ssh, at its socket, for the answer to
 * a prompt. Resolves with undefined if there is none.
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
