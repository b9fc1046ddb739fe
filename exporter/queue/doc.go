// Package queue is a durable log of records with a cursor for each sink. It knows bytes, not
// decisions. The promises of docket rest on it: a chunk is acknowledged only after fdatasync has
// returned without error for it, and a record leaves the disk only after every cursor has passed it
// durably.
//
// # Rooms
//
// Package segment is the format of a segment and its one reader: its Scan decides what is a frame,
// what is damage and what is a torn tail. Package state is what the log adds up to, as the files
// cursors and positions keep it; its Look is the one survey of the directory. Package inspect is
// check, cat and replay for a queue at rest. This package is the live queue:
//
//	queue.go       options, Open, Close, Stats, and the fields by what guards them
//	recover.go     Open takes in what the survey of the directory says
//	recoverlog.go  Open folds the scan of the log into the state
//	append.go      Append gathers chunks for the next commit
//	commit.go      the committer: one write and one fdatasync for all that wait
//	cursor.go      Next, with cursorread.go; what is done: cursordone.go
//	janitor.go     cursors, checkpoints, and the removal of segments
//	pool.go        the next segment's file, prepared ahead
//	space.go       MaxBytes, eviction, retention
//	ground.go      a directory that is removed or replaced under the queue
//	quarantine.go  what cannot be read is kept
//
// # Files
//
// Everything lies in one directory, which one process owns (flock on "lock").
//
//	lock                                      flock; its text names the process that holds it
//	00000000000000000001-0000000001.segment   frames from seq 1 on, epoch 1
//	00000000000000065537-0000000002.segment   frames from seq 65537 on, epoch 2
//	segment-4.new                             a segment that is not begun yet, or being begun
//	cursors                                   where each sink is
//	positions                                 checkpoint of what the frames add up to
//	reserve                                   space that is given up on a full disk
//	quarantine/                               files that cannot be read, and torn tails
//
// All numbers on disk are little-endian, all checksums CRC-32C.
//
// # Segment
//
// A segment is a file of fixed size: a header of one block and frames after it, each at a multiple
// of 8 bytes, and behind the last frame zeros, or the rest of a commit that failed. Frames are
// added and never change. No file is used for a second segment. The epoch is a number that no other
// segment of the queue has, and every frame repeats it.
//
//	offset  size
//	     0     8  "docketsg"
//	     8     4  format version, 3
//	    12     4  checksum of bytes 0-11 and 16-79
//	    16     8  epoch
//	    24     8  seq of the first record
//	    32    16  UUID of the queue
//	    48     8  time of creation, Unix nanoseconds
//	    56     8  epoch of the segment before, 0 if there was none
//	    64     8  offset up to which that one is durable
//	    72     8  when the last record of that one was received, Unix nanoseconds
//	    80    16  UUID of the incarnation
//	    96     4  checksum of it
//	  4096        first frame
//
// The name repeats first seq and epoch. A segment has it only once its first commit is synced. So a
// segment that is found has taken over from the one before, which ends at the offset that its
// successor names: what stands beyond was left behind by a commit that went on in the successor.
// Two segments may begin with one seq, when the earlier one has frames without records alone. A
// record that is larger than a segment makes a larger file. A segment that is closed early, because
// a write has failed or the process has ended, is cut to what it uses.
//
// # Segment pool
//
// fdatasync is several times faster on blocks that have been written before: there is no size and
// no extent to change, and so no journal to write. So the next segment's file is made in the
// background, at its full size and filled with zeros. Large commits gain nothing by the zeros:
// while they come, the space is reserved, and the zeros follow later. A commit meets neither a full
// disk nor the cost of a new file, unless it comes before the next file is ready, or the file
// system cannot reserve space. A segment is removed when the cursors that have passed it and a
// checkpoint that covers it are durable. A reader that has the file open reads on; the space counts
// as used until it closes the file. The prepared file is removed by Close, and by Open after a
// kill.
//
// # Frame
//
// A frame is one received chunk: records that came together from one producer, and what became of
// the other lines that came with them. Its records are NDJSON as it was received: each ends in
// "\n", none contains one.
//
//	offset  size
//	     0     4  "DFM1"
//	     4     1  format version, 2
//	     5     1  length of the source's name
//	     6     1  length of the producer's id, 0 for none
//	     7     1  number of tallies of refused lines
//	     8     8  epoch of the segment
//	    16     8  durable: the offset in this segment up to which everything was
//	              synced when the frame was written
//	    24     8  seq of the first record, or of the next one if count is 0
//	    32     4  count of records
//	    36     4  length of the records in bytes
//	    40     8  time of receipt, Unix nanoseconds
//	    48     8  position: the producer's number of the last line decided
//	    56     4  lines recognised as duplicates
//	    60     4  checksum of the records
//	    64     4  checksum of the header without this field
//	    68     2  length of the header, a multiple of 8
//	    70     1  number of tallies of lost records
//	    71     1  length of the identity, 0 for none
//	    72        source, producer, identity, tallies of refused lines (length of the name,
//	              name, count of 4 bytes), tallies of lost records (the same, but
//	              a count of 8 bytes), zeros up to the length of the header
//	              records, zeros up to a multiple of 8
//
// The header has its own checksum, so the loss is exact when only the records are damaged: the
// header says which seqs are lost and where the next frame is. The lines of a frame follow each
// other: there are as many as records, duplicates and refused lines, and position is the number of
// the last. So the frames add up to the numbers that were received from a producer, and to the
// numbers that it has left out. A frame without records makes a refused or repeated line, and the
// position of its producer, durable before they are acknowledged. Lost records are those that a
// producer has dropped and has reported: they stand in the frame of the record that says so, and
// count when it is stored.
//
// # Commit
//
// Append copies a chunk behind those that wait. The committer takes all of them, fills in seq,
// epoch and durable, and makes one write, of whole blocks, and one fdatasync. Then cursors see the
// records, and the chunks are acknowledged. What arrives meanwhile is the next commit: there is no
// timer. A commit is never split over segments, so half of one can never be acknowledged.
//
// # Cursors
//
// The file "cursors" has two slots of 64 KiB, written in turn; the valid one with the higher
// generation counts.
//
//	offset  size
//	     0     8  "docketcu"
//	     8     4  format version, 4
//	    12     4  checksum of bytes 0-11 and 16 up to the length
//	    16     8  generation
//	    24    16  UUID of the queue
//	    40     4  number of sinks
//	    44     4  length of the slot's content
//	    48    16  zero
//	    64        for each sink: length of its name, name, next seq, the counts
//	              delivered, filtered, deadLettered, dropped, corrupt,
//	              zero, how many of dropped were for want of room,
//	              the seq at which a replay ends, and when the last one was
//	              asked for, Unix nanoseconds
//
// # Incarnations
//
// Each Open begins an incarnation of the queue, with a random UUID. The id of a record is that UUID
// and the seq, for as long as the record is kept. Seqs go on over the starts without a gap. So a
// directory that is set back to an older state, and one that runs beside its copy, give seqs to
// other records, but no id.
//
// A segment has the records of one incarnation, which its header names: Open adds nothing to the
// segments that it finds. The end of the log that Open writes again goes to a segment of the
// incarnation that stored it first, and a new segment is begun for what comes next: those records
// may have been delivered. The checkpoint names the newest 64 incarnations, so that they are known
// when their segments are gone. Together they are the lineage of the queue (internal/lineage). Two
// copies are the same up to where their lineages part; sinks that keep a position keep a lineage
// with it. A segment without a whole header, beyond what the checkpoint covers, has an incarnation
// made from its name: the same at each start, and no other's.
//
// BUG: a virtual machine that is set back together with its memory goes on with the incarnation
// that it had, and so gives ids twice. Restart docket there.
//
// # Positions
//
// The file "positions" is JSON behind a line with its version, 2, and its checksum: an object with
// the sources' counts and then, each on a line of its own, the producers' positions, summed over
// all frames up to an offset of the segment with a given epoch. It is replaced as a whole when a
// segment is closed, at Open, and when damage was met. Open adds the frames since, so its work does
// not grow with the backlog: after Close there are none, after a kill those of the last segment and
// perhaps of the one before. What was synced for certain is added by the headers alone: records
// that are damaged there, or in front of the checkpoint, count as stored, and the damage is met
// when they are delivered.
//
// A producer is known by source, identity and name: see Producer. Its position is the highest
// number that was received, and up to 16 ranges below it that were not. How many producers are
// remembered of each source and identity, and of all, is bounded: see producers. docket's own
// sources have no identity, no bound and no gaps. Producers in use are never forgotten while docket
// runs. The log does not say which those are: after a kill the bounds hold for them too. Nothing is
// added to a segment behind its checkpoint. Bytes there are the tail that Open has found and must
// still rewrite, or the rest of a failed commit: Open reads them as the end of any log.
//
// # What can happen
//
// The process is killed. Frames are whole or torn. A torn frame is at the end of the last segment
// and was not acknowledged. Open cuts it.
//
// The machine loses power. Blocks of the commit that was under way may reach the disk in any order,
// so a hole may be followed by a valid frame. Neither was acknowledged, and keeping the frame would
// move its producer's position past the hole, which would then never be sent again. So a hole is a
// torn tail, cut with all that follows, unless a later frame proves that it was synced: its durable
// offset lies beyond the hole. Then the hole is damage.
//
// A write or a sync fails. What the disk did is unknown, and a second sync would succeed with the
// data gone. The segment ends where it was durable and is never written, synced or used again. The
// same commit goes to a fresh segment, again and again with growing pauses, until the disk takes
// one. A segment that fails with its first commit is removed, so that attempts do not fill the
// disk. What the commit has left at the end of the failed segment lies beyond the offset that the
// successor names.
//
// The process is killed after a failed sync. The page cache may show Open frames that the disk does
// not have, and would say yes to a sync. So Open does not trust frames at the end of the last
// segment that no later frame proves synced and no cursor has passed. It writes them again to a
// fresh segment before anything else; until then it neither shows them nor tells a position. When
// that fails, or a crash comes in between, they still stand where they were: the fresh segment has
// no name yet.
//
// The disk is full, or has no more free than MinFreeBytes. The segment in use is filled, and then
// nothing new is acknowledged. Sinks continue, and segments that they have passed are removed. The
// checkpoint that this needs finds room in the reserve. The last segment usually stays, to repeat
// what the positions file says; it is removed as well when it is full and delivered, because it may
// be all there is.
//
// The queue has reached MaxBytes. Files are counted, not bytes: a record is taken when it fits into
// the segment in use or another may be begun. Two segments are reserved for frames that only count.
// DropOldest evicts the oldest segment: every cursor that has not passed it skips it, and it is
// removed once they are durable.
//
// Bytes rot. A frame whose checksum does not hold and that is not at the end is damage, and so is a
// header of a segment. The reader looks for the next whole frame of the segment, and every sink
// that has yet to pass the seqs between counts them as corrupt. What stands before and after is
// delivered. When every sink has passed the segment, it moves to quarantine/ as a whole instead of
// being removed, which needs no room. The checkpoint says which segments have damage, and is
// durable before an account that has passed the damage. A torn tail is no damage: it is cut, and
// what looks like frames is copied to quarantine/.
//
// A segment is missing. Its seqs are counted as corrupt.
//
// The cursors file is lost or neither slot is valid. Every sink starts at the first kept record:
// delivered twice, never skipped. A sink whose destination keeps its position continues there:
// until the next start, no account says that the sink was new or set back.
//
// The positions file is lost. The whole log is read instead.
//
// The log has lost its end, because a disk lied about a sync, or somebody has put back an older
// copy. The last segment counts as damaged if bytes stand behind its end. What a cursor has passed
// was durable once, so the next record gets a seq beyond the furthest cursor. Seqs that no cursor
// had passed are given again, and their ids are not: see Incarnations.
//
// A removed segment comes back after a crash. All cursors are beyond it, and it is removed again.
//
// # Versions
//
// Segments, cursors and positions say which version they have, under a checksum that holds for any
// version: of the first 80 bytes, of as many as the slot says, of all behind the first line. A file
// whose checksum holds and whose version is not known here is no damage: Open and the tools for a
// queue at rest fail with *fileversion.Error and change nothing. Without the checksum no version is
// believed.
//
// # Traps
//
// The committer publishes the end of the segment before durable, and a cursor looks at durable
// before the end. That order is what makes reading without a lock right: see readFrame. A cursor's
// place is durable only a little after Ack. A segment is removed by what the cursors file says, not
// by what memory says. Two rooms must not judge one byte: whatever needs to know what a range of a
// segment is goes through segment.Scan. testdata/verdicts.txt holds it to what it has always said.
package queue
