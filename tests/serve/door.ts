import { type AddressInfo, connect, createServer, type Server, type Socket } from "node:net";

/**
 * A port of loopback in front of a server of a test. While it is shut, nothing listens; while it is silent it takes connections, and
 * neither those nor the ones before are answered.
 */
export class Door {
  readonly #target: number;
  readonly #sockets = new Set<Socket>();
  #server: Server | undefined;
  #isSilent = false;
  port = 0;

  constructor(target: number) {
    this.#target = target;
  }

  /** Listens, on the same port each time. */
  async open(): Promise<this> {
    await this.shut();
    const server = createServer({ pauseOnConnect: true }, socket => this.#took(socket));
    await new Promise<void>((resolve, reject) => {
      server.once("error", reject);
      server.listen(this.port, "127.0.0.1", resolve);
    });
    this.#server = server;
    this.port = (server.address() as AddressInfo).port;
    return this;
  }

  /** Ends every connection, and listens no more. */
  async shut(): Promise<void> {
    this.#isSilent = false;
    for (const socket of this.#sockets) socket.destroy();
    const server = this.#server;
    this.#server = undefined;
    if (server) await new Promise<void>(resolve => server.close(() => resolve()));
  }

  /** From now on nothing comes back. */
  hush(): void {
    this.#isSilent = true;
    for (const socket of this.#sockets) socket.unpipe().pause();
  }

  #took(socket: Socket): void {
    this.#keep(socket);
    if (this.#isSilent) return;
    const other = connect(this.#target, "127.0.0.1");
    this.#keep(other);
    for (const [one, two] of [[socket, other] as const, [other, socket] as const])
      one.once("close", () => two.destroy());
    socket.pipe(other).pipe(socket);
  }

  #keep(socket: Socket): void {
    this.#sockets.add(socket);
    socket.on("error", () => {});
    socket.once("close", () => this.#sockets.delete(socket));
  }
}
