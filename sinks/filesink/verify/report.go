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
	End     Place    // the last record that the manifest accounts for

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
	Notes          []string                   // what is no break, and worth a look
}

// Queue is what the manifest covers of one queue.
type Queue struct {
	ID       string `json:"id"`
	FirstSeq uint64 `json:"firstSeq"`
	LastSeq  uint64 `json:"lastSeq"`
}

// Active is the unfinished file. Nothing of it is proven.
type Active struct {
	File  string `json:"file"`
	Bytes int64  `json:"bytes"`
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
	NotAFile         Kind = "NotAFile"
	WrongCount       Kind = "WrongCount"
	FileUnlisted     Kind = "FileUnlisted"
	LastMissing      Kind = "LastMissing"

	CheckpointMissing Kind = "CheckpointMissing"
	CheckpointDiffers Kind = "CheckpointDiffers"
)

// Break is where an export is not what it should be. Fields that do not apply are zero.
type Break struct {
	Kind     Kind   `json:"kind"`
	Line     uint64 `json:"line,omitempty"` // of the manifest, from 1
	File     string `json:"file,omitempty"`
	Queue    string `json:"queue,omitempty"`
	FirstSeq uint64 `json:"firstSeq,omitempty"` // of the records that it is about
	LastSeq  uint64 `json:"lastSeq,omitempty"`
	Expected string `json:"expected"`
	Found    string `json:"found"`
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
	NotAFile:         "a link, a directory or a special file has replaced the file: docket verify follows no links",
	WrongCount:       "the file matches the manifest's hash, but the manifest is wrong about its contents",
	FileUnlisted:     "somebody added the file, or its line was removed from the end of the manifest",
	LastMissing:      "the end of the export was removed, or the export was restored to an older state",

	CheckpointMissing: "the end of the export was removed, the export was restored to an older state, or its lines were rewritten: docket had reported this line before",
	CheckpointDiffers: "the line exists but covers different records than docket reported: the checkpoint is not docket's, or was edited",
}
