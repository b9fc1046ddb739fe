package verify

import (
	"time"

	"github.com/docket-export/docket/sinks"
	"github.com/docket-export/docket/sinks/filesink/manifest"
)

// Report is what was found up to the first break.
type Report struct {
	Break   *Break   // nil: nothing is wrong as far as the export goes
	Anchors []Met    // that the export agrees with; they prove nothing for a broken export
	Doubts  []string // why the export is not Proven although it agrees with the anchors
	End     Place    // the last record of the export, unfinished file included

	Lines        uint64        // of the manifest that were taken
	Head         manifest.Hash // of the last of them: Anchor.Line for a later Run
	LastFinished time.Time     // in the last entry
	SignedFrom   uint64        // the first line with a signature; 0: none
	Signed       bool          // every signature was checked, and covers all lines

	Files          uint64 // that are there and proven
	Bytes          int64
	Records        uint64
	RemovedFiles   uint64 // by retention; what they held is no longer proven, only accounted for
	RemovedRecords uint64
	Gaps           map[sinks.GapReason]uint64 // seqs, by reason
	Queues         []Queue                    // in the order in which they appear
	Active         *Active                    // nil: there is none, or a break came first
	Compared       Compared                   // with Options.Reference
	Notes          []string                   // what is no break, and worth a look
}

// Queue is what the manifest covers of one queue.
type Queue struct {
	ID       string `json:"id"`
	FirstSeq uint64 `json:"firstSeq"`
	LastSeq  uint64 `json:"lastSeq"`
}

// Active is the unfinished file. It is not proven before it is finished.
type Active struct {
	File  string `json:"file"`
	Queue string `json:"queue,omitempty"`
	// Bytes and Records are the accepted ones, FirstSeq and LastSeq the first and
	// last record. They are 0 without a position; then Bytes is the size of the file.
	Bytes    int64  `json:"bytes"`
	Records  uint64 `json:"records,omitempty"`
	FirstSeq uint64 `json:"firstSeq,omitempty"`
	LastSeq  uint64 `json:"lastSeq,omitempty"`
	Checked  bool   `json:"checked"` // against the hash in the position
}

// Compared counts the records that Options.Reference had.
type Compared struct {
	Same    uint64 `json:"same"`    // here as there
	InGaps  uint64 `json:"inGaps"`  // not exported, for the reason in the manifest
	Removed uint64 `json:"removed"` // exported and removed by retention since
	Earlier uint64 `json:"earlier"` // from before the export began
	NotYet  uint64 `json:"notYet"`  // behind the end of the export, and not due
}

// Kind says what a break is.
type Kind string

// The kinds of breaks.
const (
	ManifestMissing  Kind = "ManifestMissing"
	LineDamaged      Kind = "LineDamaged"
	ChainBroken      Kind = "ChainBroken"
	SignatureMissing Kind = "SignatureMissing"
	SignatureWrong   Kind = "SignatureWrong"
	SeqsMissing      Kind = "SeqsMissing"
	SeqsRepeated     Kind = "SeqsRepeated"
	UnknownGap       Kind = "UnknownGap"
	NameRepeated     Kind = "NameRepeated"
	RemovedTwice     Kind = "RemovedTwice"
	FileMissing      Kind = "FileMissing"
	FileTruncated    Kind = "FileTruncated"
	FileExtended     Kind = "FileExtended"
	FileChanged      Kind = "FileChanged"
	FileSwapped      Kind = "FileSwapped"
	NotAFile         Kind = "NotAFile"
	WrongCount       Kind = "WrongCount"
	FileUnlisted     Kind = "FileUnlisted"
	ManifestCut      Kind = "ManifestCut"
	ManifestReplaced Kind = "ManifestReplaced"
	ActiveDamaged    Kind = "ActiveDamaged"
	LastMissing      Kind = "LastMissing"

	CheckpointMissing Kind = "CheckpointMissing"
	CheckpointDiffers Kind = "CheckpointDiffers"

	RecordDiffers Kind = "RecordDiffers"
	RecordMissing Kind = "RecordMissing"
)

// Break is where an export is not what it should be. Fields that do not apply are zero.
type Break struct {
	Kind     Kind   `json:"kind"`
	Line     uint64 `json:"line,omitempty"` // of the manifest, from 1
	File     string `json:"file,omitempty"`
	Record   uint64 `json:"record,omitempty"` // line of the file, from 1
	Queue    string `json:"queue,omitempty"`
	FirstSeq uint64 `json:"firstSeq,omitempty"` // of the records that it is about
	LastSeq  uint64 `json:"lastSeq,omitempty"`
	Expected string `json:"expected"`
	Found    string `json:"found"`

	size int64 // of the file, where its content is not what it should be
}

// Meaning says what may have caused the break.
func (b *Break) Meaning() string { return meanings[b.Kind] }

// meanings is never changed.
var meanings = map[Kind]string{
	ManifestMissing:  "the manifest was deleted or moved: without it nothing is proven",
	LineDamaged:      "the line was edited, or the disk damaged it; nothing after it was checked",
	ChainBroken:      "the line before was edited, or lines were removed, inserted or moved here; nothing after it was checked",
	SignatureMissing: "the line was written without the private key, by a sink that does not sign or by somebody else; or all signed lines were removed",
	SignatureWrong:   "the line was edited, or signed with another key",
	SeqsMissing:      "records are left out without a reason",
	SeqsRepeated:     "the export has records twice, or the manifest was assembled from several manifests",
	UnknownGap:       "the sink had lost its position and does not know whether it wrote these records: they may be missing",
	NameRepeated:     "two lines claim the same file",
	RemovedTwice:     "the line removes a file that no earlier line adds, or that was removed already",
	FileMissing:      "the file was deleted or moved away, and not by the retention of the sink",
	FileTruncated:    "the end of the file is cut off, or lines inside the file were removed: then other records than the last are missing",
	FileExtended:     "something was added to the file after its last record",
	FileChanged:      "bytes were edited, or lines moved",
	FileSwapped:      "the file has the content of another file",
	NotAFile:         "a link, a directory or a special file has replaced the file: docket verify follows no links",
	WrongCount:       "the file matches the manifest's hash, but the manifest is wrong about its contents",
	FileUnlisted:     "somebody added the file, or its line was removed from the end of the manifest",
	ManifestCut:      "lines were removed from the end of the manifest",
	ManifestReplaced: "the manifest was rewritten, or restored to an older state",
	ActiveDamaged:    "the unfinished file was edited, cut, moved or deleted",
	LastMissing:      "the end of the export was removed, or the export was restored to an older state",

	CheckpointMissing: "the end of the export was removed, the export was restored to an older state, or its lines were rewritten: docket had reported this line before",
	CheckpointDiffers: "the line exists but covers different records than docket reported: the checkpoint is not docket's, or was edited",

	RecordDiffers: "the record was changed in one of the two; the hash proves which, if the manifest is signed",
	RecordMissing: "records were not exported, or the end of the export was removed",
}
