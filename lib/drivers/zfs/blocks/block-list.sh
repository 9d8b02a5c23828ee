# Lists the ranges of a zvol's snapshot that hold data or, with an earlier snapshot of it, those that were written or freed since then.
# $1: the snapshot. $2: the earlier one, or nothing. $3: the size of the snapshot. $4: the offset where the list begins. $5 and more: zfs(8).
#
# Prints "begin", then "<offset> <length>" for each range, with ascending offsets, and "end" after the whole stream of zfs send was read.
# A line with a dot, each few thousand records, lets this end when its reader has gone. Exit codes: 3: a program is missing; 4: the
# output of zstream is not as it is known here; others: zfs(8) has failed.
#
# Lines of zstream dump -v: OpenZFS 2.0 to 2.4, cmd/zstream/zstream_dump.c; equal in 0.8, cmd/zstreamdump/zstreamdump.c. A zvol's data is
# object 1 (include/sys/zvol.h, ZVOL_OBJ). Offsets ascend, except for one FREE of length -1 from the last block to the end, which follows the
# OBJECT record (module/zfs/dmu_send.c, dump_dnode and dump_free).
snapshot=$1 base=$2 size=$3 from=$4
shift 4
if command -v zstream >/dev/null 2>&1; then
  dump() { zstream dump -v; }
elif command -v zstreamdump >/dev/null 2>&1; then
  dump() { zstreamdump -v; }
else
  echo "the storage host has neither zstream(8) nor zstreamdump(8), which come with OpenZFS" >&2
  exit 3
fi
printf '\nbegin\n'

# Behind its last block the earlier snapshot is zeroes. Its stream tells where that is right at its beginning, and is not read further.
past=
if [ -n "$base" ]; then
  past=$({ "$@" send -L -c "$base" | dump | awk '/^FREE object = 1 / && $10 < 0 { print $7; exit }'; } 2>/dev/null)
fi

exec 4>&1
codes=$({
  { "$@" send -L -c ${base:+-i "$base"} "$snapshot"; echo "$?" >&3; } | { dump; echo "$?" >&3; } |
    awk -v base="$base" -v size="$size" -v from="$from" -v past="$past" '
      function fail(why) {
        if (!failed) print "the output of zstream dump is not known: " why | "cat >&2"
        failed = 1
        exit 4
      }
      function put(start, end) {
        if (start < from) start = from
        if (end > size) end = size
        if (start < end) printf "%.0f %.0f\n", start, end - start
      }
      # Joins what is adjacent.
      function add(start, length_, why) {
        if (!(length_ > 0) || start < last) fail(why)
        if (start != last) {
          put(first, last)
          first = start
        }
        last = start + length_
      }
      BEGIN {
        size += 0
        from += 0
        past = past == "" ? size : past + 0
      }
      ++records % 4096 == 0 {
        put(first, last)
        first = last
        print "."
        fflush()
      }
      /^WRITE object = 1 / {
        if ($19 != "offset" || $22 != "logical_size") fail($0)
        add($21 + 0, $24 + 0, $0)
        next
      }
      /^WRITE_EMBEDDED object = 1 / {
        if ($5 != "offset" || $8 != "length") fail($0)
        add($7 + 0, $10 + 0, $0)
        next
      }
      /^WRITE_BYREF object = 1 / {
        if ($12 != "offset" || $15 != "length") fail($0)
        add($14 + 0, $17 + 0, $0)
        next
      }
      /^FREE object = 1 / {
        if ($5 != "offset" || $8 != "length") fail($0)
        if (base == "") next
        # Zeroes that were zeroes.
        if ($7 + 0 >= past) next
        if ($10 + 0 >= 0) add($7 + 0, ($7 + $10 > past ? past - $7 : $10 + 0), $0)
        else if (!cut || $7 + 0 < tail) {
          cut = 1
          tail = $7 + 0
        }
        next
      }
      /^OBJECT object = / { next }
      /^[A-Z_]+ object = 1 / || /^INVALID / || /^Expected checksum differs/ { fail($0) }
      /^BEGIN record/ { begins++ }
      /^END checksum = / { ends++ }
      /^SUMMARY:/ { summaries++ }
      END {
        if (failed) exit 4
        if (begins != 1 || ends != 1 || summaries != 1) {
          print "the stream has no end" | "cat >&2"
          exit 1
        }
        put(first, last)
        if (cut) put(tail > last ? tail : last, past)
      }' >&4
} 3>&1) || exit
[ "$codes" = "0
0" ] || exit 1
echo end
