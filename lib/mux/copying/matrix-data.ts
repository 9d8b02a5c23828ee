import type { CopyWay } from "../../drivers/copying.ts";
import type { CopyMatrix, MatrixReach } from "./matrix.ts";
import type { Obstacle } from "./ways.ts";

/** How volumes and snapshots get to other connections, the cheapest way first. `because` and `why` are absent unless nothing does. */
export interface ReachData {
  readonly volumes: readonly CopyWay[];
  readonly snapshots: readonly CopyWay[];
  readonly because?: Obstacle;
  readonly why?: string;
}

/** Connections to which content of a row gets in the same manner; `eachOther`: from each source of the row to the others, too. */
export interface TargetsData extends ReachData {
  readonly to: readonly string[];
  readonly eachOther: boolean;
  /** For pairs on one machine; absent if it makes no difference. */
  readonly onOneMachine?: ReachData;
}

/** The ways between connections, as the output for programs has them. */
export interface CopyWays {
  readonly rows: readonly { readonly from: readonly string[]; readonly targets: readonly TargetsData[] }[];
  /** Connections that are in no row only because there are too many different ones. */
  readonly omitted: readonly string[];
  readonly givesNothing: readonly string[];
  readonly takesNothing: readonly string[];
}

/** A matrix for programs. Pure. */
export const copyWays = ({ rows, left, givesNothing, takesNothing }: CopyMatrix): CopyWays => ({
  rows: rows.map(({ from, targets }) => ({
    from,
    targets: targets.map(({ to, isMutual, reach, onOneMachine }) => ({
      ...{ to, eachOther: isMutual, ...reachData(reach) },
      ...(onOneMachine && { onOneMachine: reachData(onOneMachine) }),
    })),
  })),
  ...{ omitted: left, givesNothing, takesNothing },
});

const reachData = (reach: MatrixReach): ReachData =>
  reach.kind === "ways"
    ? { volumes: reach.volume, snapshots: reach.snapshot }
    : { volumes: [], snapshots: [], because: reach.because, why: reach.why };

/** The same without targets that content does not reach; what is possible on one machine only stays, with the reason why. Pure. */
export const onlyPossible = (ways: CopyWays): CopyWays => ({
  ...ways,
  rows: ways.rows.flatMap(({ from, targets }) => {
    const possible = targets.filter(({ why, onOneMachine }) => why === undefined || onOneMachine !== undefined);
    return possible.length > 0 ? [{ from, targets: possible }] : [];
  }),
});
