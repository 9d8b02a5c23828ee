import { connect } from "node:net";

/** How long a server may take to accept a connection, in milliseconds: two of its first packets may be lost. */
const answerMs = 4_000;

/** Whether a TCP connection with a server can be made. Says nothing about what speaks there. */
export type Answers = (host: string, port: number, signal: AbortSignal) => Promise<boolean>;

/** Asks from this process; nothing is sent. Also false when the signal aborts. */
export const answersTcp: Answers = (host, port, signal) =>
  new Promise(resolve => {
    const socket = connect({ host, port, signal: AbortSignal.any([signal, AbortSignal.timeout(answerMs)]) });
    const end = (isThere: boolean): void => {
      socket.destroy();
      resolve(isThere);
    };
    socket.once("connect", () => end(true));
    socket.once("error", () => end(false));
    socket.once("close", () => end(false));
  });
