import { connect } from "node:net";

/** The time limit for a TCP connection, in milliseconds: allows for the loss of two packets at its start. */
const answerMs = 4_000;

/** Whether a server accepts a TCP connection, whatever protocol it speaks. */
export type Answers = (host: string, port: number, signal: AbortSignal) => Promise<boolean>;

/** Connects from this process and sends nothing. Also false if the signal aborts. */
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
