import type { Answer, Harm, Spoiler } from "../../../contract/spoiled-answers.ts";
import { cutsOf } from "../../../contract/truncation.ts";
import type { Double } from "../../../fakes/truenas/double.ts";
import { tableNames } from "../../../fakes/truenas/state.ts";
import type { Delivery } from "../../../fakes/truenas/transport/delivery.ts";

/** Answers of the API, changed as a front end, a proxy or the network can change them. */

/** An answer of the API and, once it is spoiled, what comes in its place. */
export interface ApiAnswer extends Answer {
  /** Of HTTP; undefined over the WebSocket. */
  readonly status?: number | undefined;
  readonly instead?: Delivery;
}

interface ApiHarm extends Harm<ApiAnswer> {
  /** What is answered to a request that never reaches the server. */
  readonly unreached?: Delivery;
}

const instead = (title: string, delivery: (text: string) => Delivery): ApiHarm => ({
  title,
  spoil: answer => ({ ...answer, instead: delivery(answer.text) }),
});

const unreached = (title: string, delivery: Delivery): ApiHarm => ({
  title: `of a request that never reaches the server: ${title}`,
  spoil: answer => answer,
  unreached: delivery,
});

const page = "<html><head><title>404 Not Found</title></head><body>nginx</body></html>\n";

const cutAt = (text: string, random: number) =>
  cutsOf(text, random).flatMap(at => [
    instead(`cut after ${at} of ${text.length} bytes`, whole => ({ texts: [whole.slice(0, at)] })),
    instead(`cut after ${at} of ${text.length} bytes, where the connection ends`, whole => ({
      texts: [whole.slice(0, at)],
      ends: true,
    })),
  ]);

/** Over HTTP. A front end answers pages of its own, with the status of success, too. */
const httpHarms = (text: string, random: number): readonly ApiHarm[] => [
  ...cutAt(text, random),
  instead("lost", () => ({ texts: [], ends: true })),
  instead("doubled", whole => ({ texts: [whole + whole] })),
  ...[200, 404, 502, 503, 504].flatMap(status => [
    ...(status === 503 ? [] : [instead(`a page with ${status}`, () => ({ texts: [page], status }))]),
    unreached(`a page with ${status}`, { texts: [page], status }),
  ]),
  unreached("nothing", { texts: [], ends: true }),
  unreached("an empty body", { texts: [""] }),
];

/** The message with another number, or none. */
const numbered = (text: string, id: unknown): string => JSON.stringify({ ...JSON.parse(text), id });

const empty = JSON.stringify({ jsonrpc: "2.0", result: [] });

/** Over the WebSocket. */
const socketHarms = (text: string, random: number): readonly ApiHarm[] => [
  ...cutAt(text, random),
  instead("lost", () => ({ texts: [], ends: true })),
  instead("doubled", whole => ({ texts: [whole + whole] })),
  instead("twice", whole => ({ texts: [whole, whole] })),
  ...[0, 1000, "1", null].map(id =>
    instead(`with the number ${id}`, whole => ({ texts: [numbered(whole, id)], ends: true })),
  ),
  unreached("nothing", { texts: [], ends: true }),
  instead("behind one with another number", whole => ({ texts: [numbered(empty, 999), whole] })),
];
/** All changes of an answer of the API; `random`: the number of places where it is cut. */
export const apiHarms = ({ text, status }: ApiAnswer, random: number): readonly ApiHarm[] =>
  (status === undefined ? socketHarms : httpHarms)(text, random);

/** From now on the answers of the double come through `spoiler`. */
export function spoil(double: Double, spoiler: Spoiler<ApiAnswer>): void {
  double.deliver = ({ text, status }) => spoiler.answer({ text, status, code: 0 }).instead;
  double.intercept = () => {
    const { unreached: delivery } = (spoiler.next ?? {}) as Partial<ApiHarm>;
    if (delivery) spoiler.answer({ text: "", code: 0 });
    return delivery;
  };
}

/** Remembers what the double has; the result puts it there again. */
export function saved({ state }: Double): () => void {
  const copy = structuredClone(state);
  return () => void Object.assign(state, structuredClone(copy));
}

/** Everything that the double has, as SpoiledRig.things. */
export function thingsOf({ state: { datasets, snapshots, tables } }: Double): readonly string[] {
  return [
    ...Object.values(datasets).map(({ name, guid, type, native: { refreservation, ...native }, user, mode }) => {
      // None is what a sparse volume has, set or not.
      const reserved = refreservation === "0" ? undefined : refreservation;
      return `${name} ${JSON.stringify([type, native, reserved, user, mode])}#${guid}`;
    }),
    ...Object.entries(snapshots).map(([name, { guid, user }]) => `${name} ${JSON.stringify(user)}#${guid}`),
    ...tableNames.flatMap(table =>
      tables[table].map(
        // What the system itself makes up for a disk differs, like the id, if it was made after something else.
        ({ id, device_uuid: _, device_nguid: __, naa, ...row }) => `${table} ${JSON.stringify(row)}#${id} ${naa}`,
      ),
    ),
  ];
}
