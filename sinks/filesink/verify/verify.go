package verify

import (
	"context"
	"crypto/ed25519"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"slices"
	"sync/atomic"

	"github.com/docket-export/docket/sinks"
	"github.com/docket-export/docket/sinks/filesink/manifest"
)

// Options say what to prove beyond what the directory says of itself. The zero
// Options are valid.
type Options struct {
	// PublicKeys are the keys of the exporter, the present one and earlier ones.
	// With any, the last line of the manifest must be signed, and each line after a
	// signed one. The first signature covers the lines before it.
	PublicKeys []ed25519.PublicKey
	// Last is something that must be in the export; nil: nothing is known.
	Last *Anchor
	// Checkpoints are copies of docket's statements about exports. Checkpoints of this
	// export must agree with it, others are left out. nil: no checkpoints are compared.
	Checkpoints []Checkpoint
	// Sink is the sink that writes the export: only its checkpoints count. Empty: the
	// checkpoints of any sink.
	Sink string
	// Progress is kept up to date for other goroutines; may be nil.
	Progress *Progress
}

// Progress is how much of the files has been read.
type Progress struct {
	Done  atomic.Int64 // bytes
	Total atomic.Int64 // 0 while it is not known
}

func (p *Progress) add(n int) {
	if p != nil {
		p.Done.Add(int64(n))
	}
}

// ErrNoExport says that a directory does not exist, or that no sink has written there. For Run,
// an empty directory is an export without an end: somebody may have emptied it.
var ErrNoExport = errors.New("not found")

// ErrWhichSink says that checkpoints of several sinks are about exports that begin with
// the same line as this one: Options.Sink must name the sink that writes it.
var ErrWhichSink = errors.New("the checkpoints are of several exports that begin alike")

// Run proves the export in dir. A fault of the export is Report.Break. An error says that
// the export could not be read to its end; the report is then worthless. Run returns
// promptly once ctx is done.
func Run(ctx context.Context, dir string, o Options) (Report, error) {
	root, err := openRoot(dir)
	if err != nil {
		return Report{}, err
	}
	defer root.Close() // nothing was written through it
	v := newVerifier(ctx, root, o)
	if err := v.run(); err != nil {
		if ctx.Err() != nil {
			err = context.Cause(ctx)
		}
		return Report{}, fmt.Errorf("export %s: %w", dir, err)
	}
	return v.report, nil
}

func openRoot(dir string) (*os.Root, error) {
	info, err := os.Stat(dir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("export %s: %w: no such directory", dir, ErrNoExport)
	}
	if err != nil {
		return nil, fmt.Errorf("export %s: %w", dir, err)
	}
	if !info.IsDir() {
		return nil, fmt.Errorf("export %s: %w: not a directory", dir, ErrNoExport)
	}
	return os.OpenRoot(dir)
}

// verifier is one Run.
type verifier struct {
	ctx  context.Context
	root *os.Root
	Options

	report   Report
	tree     tree
	manifest *os.File // nil: there is none
	lines    *manifest.Reader
	alive    map[string]*listed // files that no line says are removed
	queues   map[string]int     // index into report.Queues
	end      Place              // the last record that the lines read so far account for
	stopped  bool               // at a broken line: no later one is read
	buffer   []byte

	checkpoints checkpoints
	removals    map[string]*listed // files that a line behind the newest line anchor says are removed
}

// listed is a file with an entry.
type listed struct {
	line    uint64
	entry   *manifest.Entry // without its gaps, which may be many
	missing *Break          // why it is not there, unless a later line says that it was removed
	proven  bool
}

func newVerifier(ctx context.Context, root *os.Root, o Options) *verifier {
	return &verifier{
		ctx: ctx, root: root, Options: o,
		report: Report{Gaps: map[sinks.GapReason]uint64{}}, buffer: make([]byte, bufferSize),
		alive: map[string]*listed{}, removals: map[string]*listed{}, queues: map[string]int{},
	}
}

func (v *verifier) run() error {
	if err := v.open(); err != nil {
		return err
	}
	if v.manifest != nil {
		defer v.manifest.Close()
	}
	if err := v.readLines(); err != nil {
		return err
	}
	if err := v.checkDirectory(); err != nil {
		return err
	}
	for _, f := range v.alive {
		if f.missing != nil && !v.stopped {
			v.broken(f.missing)
		}
	}
	if v.report.Break == nil {
		if err := v.checkEnd(); err != nil {
			return err
		}
	}
	v.checkRemovals()
	v.report.End = v.end
	return nil
}

// open looks at the directory before anything of the manifest is known.
func (v *verifier) open() (err error) {
	if v.tree, err = walkTree(v.root); err != nil {
		return err
	}
	if v.Progress != nil {
		v.Progress.Total.Store(v.tree.bytes)
	}
	v.manifest, _, err = open(v.root, manifest.FileName)
	switch {
	case err == nil:
		v.lines = manifest.NewReader(v.manifest)
	case errors.Is(err, fs.ErrNotExist):
		v.lines = manifest.NewReader(nothing{})
	case errors.Is(err, errNotAFile):
		v.stopped = true
		v.broken(&Break{Kind: NotAFile, File: manifest.FileName, Expected: "a regular file", Found: err.Error()})
	default:
		return err
	}
	return nil
}

// nothing is an empty manifest.
type nothing struct{}

func (nothing) Read([]byte) (int, error) { return 0, io.EOF }

// broken takes note of a break, unless there is one that comes before it.
func (v *verifier) broken(b *Break) {
	place := func(b *Break) uint64 { return b.Line - 1 } // none: after all lines
	if first := v.report.Break; first == nil || place(b) < place(first) {
		v.report.Break = b
	}
}

// readLines checks the lines up to the present end, and the files that they name.
func (v *verifier) readLines() error {
	for !v.stopped {
		line, err := v.lines.Next()
		if errors.Is(err, io.EOF) {
			break
		}
		if err == nil {
			err = v.ctx.Err()
		}
		damaged, isDamaged := errors.AsType[*manifest.LineError](err)
		switch {
		case isDamaged:
			v.stop(&Break{Kind: LineDamaged, Line: damaged.Number, Expected: "a line as docket writes it", Found: damaged.Err.Error()})
		case err != nil:
			return err
		default:
			if err := v.line(line); err != nil {
				return err
			}
		}
	}
	return nil
}

// stop notes a break of a line that leaves the later ones without worth.
func (v *verifier) stop(b *Break) {
	v.broken(b)
	v.stopped = true
}

// line checks the next line of the manifest.
func (v *verifier) line(l *manifest.Line) error {
	number := v.lines.Number()
	if b := v.checkChain(l, number); b != nil {
		v.stop(b)
		return nil
	}
	v.report.Lines, v.report.Head = number, l.Hash
	if l.Removed != nil {
		v.removed(l.Removed, number)
	} else if err := v.entry(l.Entry, number); err != nil {
		return err
	}
	v.reached(l.Hash, number)
	return nil
}

// checkChain checks the hash and the signature that bind a line to its predecessors and author.
func (v *verifier) checkChain(l *manifest.Line, number uint64) *Break {
	b := &Break{Line: number}
	if e := l.Entry; e != nil {
		b.File, b.Queue, b.FirstSeq, b.LastSeq = e.Name, e.Queue, e.FirstSeq, e.LastSeq
	} else {
		b.File = l.Removed.Name
	}
	if l.Previous != v.report.Head {
		b.Kind, b.Expected, b.Found = ChainBroken, fmt.Sprintf("previous %s, the hash of line %d", v.report.Head, number-1), "previous "+l.Previous.String()
		if number == 1 {
			b.Expected = "previous " + v.report.Head.String() + ", as in a first line"
		}
		return b
	}
	if l.IsSigned() && v.report.SignedFrom == 0 {
		v.report.SignedFrom = number
	}
	if v.PublicKeys == nil {
		return nil
	}
	v.report.Signed = l.IsSigned()
	switch {
	case !l.IsSigned() && v.report.SignedFrom > 0:
		b.Kind, b.Expected, b.Found = SignatureMissing, "a signature, as in the lines before", "none"
	case l.IsSigned() && !slices.ContainsFunc(v.PublicKeys, l.SignedBy):
		b.Kind, b.Expected, b.Found = SignatureWrong, "a signature that belongs to the line and a public key given", "another"
	default:
		return nil
	}
	return b
}

// removed takes a file off the list.
func (v *verifier) removed(r *manifest.Removed, number uint64) {
	f, ok := v.alive[r.Name]
	if !ok {
		v.stop(&Break{Kind: RemovedTwice, Line: number, File: r.Name, Expected: "the name of a file in the export", Found: "no file of that name"})
		return
	}
	delete(v.alive, r.Name)
	v.removals[r.Name] = f
	v.report.RemovedFiles++
	v.report.RemovedRecords += f.entry.Records
	if f.proven {
		v.uncount(f.entry)
	}
}

// entry checks what an entry says and has its file read.
func (v *verifier) entry(e *manifest.Entry, number uint64) error {
	f := &listed{line: number, entry: e}
	if _, ok := v.alive[e.Name]; ok {
		v.stop(f.breakOf(NameRepeated, "a new name", "the name of line "+fmt.Sprint(v.alive[e.Name].line)))
		return nil
	}
	v.resolveLast(e)
	q, known := v.queues[e.Queue]
	var last uint64
	if known {
		last = v.report.Queues[q].LastSeq
	}
	if b := f.checkSeqs(last); b != nil {
		v.stop(b)
		return nil
	}
	if !known {
		q = len(v.report.Queues)
		v.queues[e.Queue] = q
		v.report.Queues = append(v.report.Queues, Queue{ID: e.Queue, FirstSeq: e.From(0)})
	}
	v.report.Queues[q].LastSeq, v.report.LastFinished = e.LastSeq, e.Finished
	v.end = Place{e.Queue, e.LastSeq}
	for gap := range e.Gaps.All() {
		v.report.Gaps[gap.Reason] += gap.To - gap.From + 1
	}
	v.alive[e.Name] = f
	v.tree.list(e.Name)
	err := v.read(f)
	e.Gaps = manifest.Gaps{}
	return err
}

// checkSeqs checks an entry whose queue was covered up to last.
func (f *listed) checkSeqs(last uint64) *Break {
	e := f.entry
	if err := e.Follow(last); err != nil {
		missing, ok := errors.AsType[*manifest.MissingError](err)
		if !ok {
			return f.breakOf(SeqsRepeated, fmt.Sprintf("seqs from %d on", last+1), err.Error())
		}
		b := f.breakOf(SeqsMissing, "records or gaps from seq "+fmt.Sprint(missing.From)+" on", err.Error())
		b.FirstSeq, b.LastSeq = missing.From, missing.To
		return b
	}
	for gap := range e.Gaps.All() {
		if gap.Reason == manifest.Unknown {
			b := f.breakOf(UnknownGap, "a reason for every gap", fmt.Sprintf("seqs %d to %d are missing for an unknown reason", gap.From, gap.To))
			b.FirstSeq, b.LastSeq = gap.From, gap.To
			return b
		}
	}
	return nil
}

func (v *verifier) isMissing(name string) bool {
	_, err := v.root.Lstat(name)
	return errors.Is(err, fs.ErrNotExist)
}

// breakOf is a break of all of a file.
func (f *listed) breakOf(kind Kind, expected, found string) *Break {
	e := f.entry
	return &Break{
		Kind: kind, Line: f.line, File: e.Name, Queue: e.Queue, FirstSeq: e.FirstSeq, LastSeq: e.LastSeq, Expected: expected, Found: found,
	}
}
