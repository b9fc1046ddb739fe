package bench

import (
	"bytes"
	"embed"
	"encoding/json"
	"errors"
	"io"
	"io/fs"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"
	"text/template"
	"time"
)

// peer is a program that takes lines on a Unix stream socket, keeps them, and sends them to an HTTP server. It
// is ready when its socket takes a connection. It has taken a load when it has acknowledged that or,
// where there are no acks, has read the end of each stream and closed the connection.
type peer struct {
	name    string
	config  string // a template below peers
	run     string // for the shell, with $ROOT, $FILE and $DIR
	install string // for the shell, in an empty directory with the files of peers, once; "": the program is docket
	acks    string // the protocol that says what is durable: docket, otlp; "": lines, which are not acknowledged
	loose   bool   // its queue is in memory, its default
	noKafka bool   // it is built without
}

// peers are in their safest setting, but for those whose queue is in memory. Neither rsyslog as Debian has
// it nor Filebeat has a plain HTTP output: they speak the bulk protocol of Elasticsearch.
var peers = []peer{
	{name: "docket", config: "docket.yaml", run: "$DOCKET run -f $FILE", acks: "docket"},
	{name: "rsyslog", config: "rsyslog.conf", run: runRsyslog, install: installRsyslog},
	{name: "syslog-ng", config: "syslog-ng.conf", run: runSyslogNG, install: installSyslogNG},
	{
		name: "filebeat", config: "filebeat.yml", run: "$ROOT/filebeat --strict.perms=false -e -c $FILE",
		install: "cp filebeat.mod go.mod; CGO_ENABLED=1 GOWORK=off GOFLAGS=-buildvcs=false go build -mod=mod -o filebeat github.com/elastic/beats/v7/filebeat",
	},
	{
		name: "otelcol", config: "otelcol.yaml", run: "$ROOT/otelcol --config $FILE", acks: "otlp", noKafka: true,
		install: "cp otelcol.mod go.mod; cp otelcol.go.txt main.go; CGO_ENABLED=0 GOWORK=off GOFLAGS=-buildvcs=false go build -mod=mod -trimpath -ldflags='-s -w' -o otelcol .",
	},
	{name: "rsyslog-default", config: "rsyslog.conf", run: runRsyslog, install: installRsyslog, loose: true},
	{name: "syslog-ng-default", config: "syslog-ng.conf", run: runSyslogNG, install: installSyslogNG, loose: true},
}

const (
	installRsyslog  = "sh debian.sh rsyslog rsyslog-elasticsearch rsyslog-kafka"
	installSyslogNG = "sh debian.sh syslog-ng-core syslog-ng-mod-http syslog-ng-mod-rdkafka"

	runRsyslog  = "$ROOT/usr/sbin/rsyslogd -n -i NONE -f $FILE -M $ROOT/usr/lib/*/rsyslog"
	runSyslogNG = "$ROOT/usr/sbin/syslog-ng -F -f $FILE --module-path $ROOT/usr/lib/syslog-ng/3.* -R $DIR/persist -c $DIR/control"
	// withLibraries has the dynamic linker look at the unpacked libraries first.
	withLibraries = `LD_LIBRARY_PATH=$(printf '%s:' $ROOT/usr/lib/*-linux-gnu* $ROOT/lib/*-linux-gnu* $ROOT/usr/lib/syslog-ng) exec `
)

const (
	peerRecords = 200_000
	// peerLimit is how long producers send at most: a slow program gets fewer records.
	peerLimit = 4 * time.Second
	// quietWait is three times as long as any peer waits for its next attempt.
	quietWait = 3 * time.Second
)

// BenchmarkPeerIntake is how fast records are taken while the destination is down.
func BenchmarkPeerIntake(b *testing.B) {
	measure(b, durable, false, func(b *testing.B, s *stand) {
		s.start()
		s.load(&load{Records: peerRecords / 8, Limit: peerLimit / 4})
		cpu := s.cpu()
		sum := s.load(&load{Records: peerRecords, Limit: peerLimit}).stint()
		sum.cpu = s.cpu() - cpu
		sum.report(b)
		b.ReportMetric(s.memory("VmHWM"), "MB-peak")
	})
}

// BenchmarkPeerStart loads a peer while the destination is down, kills it, and starts it again beside the
// destination: until the first record is there, and how fast the backlog comes.
func BenchmarkPeerStart(b *testing.B) {
	measure(b, durable, false, func(b *testing.B, s *stand) {
		s.backlog()
		s.open()
		began := time.Now()
		s.start()
		s.arrive(func() bool { return s.count >= s.sent })
		stint{records: s.last.count - s.first.count, took: s.last.at.Sub(s.first.at)}.report(b)
		b.ReportMetric(s.first.at.Sub(began).Seconds()*1e3, "ms-first-batch")
	})
}

// BenchmarkPeerKafka is the same with a broker that checks every request and forgets it.
func BenchmarkPeerKafka(b *testing.B) {
	measure(b, func(p peer) bool { return durable(p) && !p.noKafka }, true, func(b *testing.B, s *stand) {
		s.backlog()
		c := newCounter(s.sent * 9 / 10) // some come once more, and the last may wait for others
		serveKafka(b, must(strconv.Atoi(s.port))(b), c)
		s.start()
		c.wait(b).report(b)
	})
}

// BenchmarkPeerKill counts what SIGKILL loses in the middle of a load of 200 records a second, which every
// peer can follow, while the destination is down: of what was acknowledged or else written.
func BenchmarkPeerKill(b *testing.B) {
	measure(b, func(peer) bool { return true }, false, func(b *testing.B, s *stand) {
		s.start()
		d := s.load(&load{Records: producers << 20, Rate: 200, Limit: 3980 * time.Millisecond, Kill: s.process.cmd.Process.Pid})
		s.kill()
		s.start()
		s.open()
		s.arrive(func() bool { return s.missing(d.Each) == 0 })
		b.ReportMetric(0, "ns/op")
		b.ReportMetric(float64(d.Records), "sent")
		b.ReportMetric(float64(s.missing(d.Each)), "lost")
	})
}

func durable(p peer) bool { return !p.loose }

func measure(b *testing.B, wanted func(peer) bool, kafka bool, do func(b *testing.B, s *stand)) {
	for _, p := range peers {
		if !wanted(p) {
			continue
		}
		b.Run("program="+p.name, func(b *testing.B) {
			root := p.installed(b)
			for b.Loop() {
				do(b, p.stand(b, root, kafka))
			}
		})
	}
}

//go:embed peers
var files embed.FS

// installed returns the directory of the program, which is below .cache and made once. Nothing is installed
// in the system, and no root is needed.
func (p peer) installed(b *testing.B) string {
	b.Helper()
	if p.install == "" {
		return ""
	}
	cache := must(filepath.Abs(filepath.Join("..", ".cache", "peers")))(b)
	dir := filepath.Join(cache, strings.TrimSuffix(p.name, "-default"))
	if made, err := os.ReadFile(filepath.Join(dir, "recipe")); err == nil && string(made) == p.install {
		return dir
	}
	work := dir + ".new" // renamed once it is whole
	check(b, os.RemoveAll(work))
	check(b, os.CopyFS(work, must(fs.Sub(files, "peers"))(b)))
	cmd := exec.CommandContext(b.Context(), "sh", "-euc", p.install)
	cmd.Dir = work
	if said, err := cmd.CombinedOutput(); err != nil {
		b.Fatalf("install %s: %v: %s", p.name, err, said[max(0, len(said)-4000):])
	}
	check(b, os.WriteFile(filepath.Join(work, "recipe"), []byte(p.install), 0o644))
	check(b, errors.Join(os.RemoveAll(dir), os.Rename(work, dir)))
	return dir
}

// stand is a peer that is measured, with what it keeps and what has arrived at its destination.
type stand struct {
	*process
	*census
	peer
	b          *testing.B
	env        []string
	socket     string
	port       string
	next, sent int // number of the next record of each producer, and all records so far
}

func (p peer) stand(b *testing.B, root string, kafka bool) *stand {
	b.Helper()
	dir := scratch(b)
	s := &stand{peer: p, b: b, socket: newSocket(b), census: newCensus()}
	_, s.port, _ = strings.Cut(freeAddress(b), ":")
	file := filepath.Join(dir, p.config)
	s.env = []string{"ROOT=" + root, "FILE=" + file, "DIR=" + dir, "DOCKET=" + must(filepath.Abs(*program))(b)}
	f := must(os.Create(file))(b)
	check(b, must(template.ParseFS(files, "peers/"+p.config))(b).Execute(f, map[string]any{
		"Directory": dir, "Socket": s.socket, "Port": s.port, "Admin": freeAddress(b), "Strict": !p.loose, "Kafka": kafka,
	}))
	check(b, f.Close())
	return s
}

func (s *stand) start() {
	s.b.Helper()
	if err := os.Remove(s.socket); !errors.Is(err, fs.ErrNotExist) {
		check(s.b, err)
	}
	s.process = start(s.b, s.env, "sh", "-euc", withLibraries+s.run)
	s.listens(s.socket, time.Millisecond)
}

// backlog loads the peer while its destination is down, and kills it.
func (s *stand) backlog() {
	s.b.Helper()
	s.start()
	s.load(&load{Records: peerRecords, Limit: peerLimit})
	time.Sleep(time.Second)
	s.kill()
}

// open brings up the destination.
func (s *stand) open() { listen(s.b, "127.0.0.1:"+s.port, s.census.handler()) }

func (s *stand) load(o *load) done {
	s.b.Helper()
	o.Socket, o.Producers, o.First, o.OTLP = s.socket, producers, s.next, s.acks == "otlp"
	if s.acks == "docket" {
		o.Window = window
	}
	d := perform(s.b, o)
	s.next += o.each()
	s.sent += d.Records
	return d
}

// arrive waits until enough, or until nothing more comes.
func (s *stand) arrive(enough func() bool) {
	s.b.Helper()
	before, last := 0, time.Now()
	until(s.b, "the records to arrive", 20*time.Millisecond, func() bool {
		s.mu.Lock()
		defer s.mu.Unlock()
		if s.count > before {
			before, last = s.count, time.Now()
		}
		return enough() || time.Since(last) > quietWait
	})
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.broken != "" {
		s.b.Fatalf("a line has arrived that nobody has sent so: %.400s", s.broken)
	}
}

// census knows which records have arrived, and when there were how many.
type census struct {
	blocks []block // by producer

	mu          sync.Mutex
	seen        [producers][]bool // by number
	count       int               // each record once
	first, last arrival
	broken      string // a line that is not, byte for byte, what a producer has sent
}

type arrival struct {
	count int
	at    time.Time
}

func newCensus() *census {
	c := &census{}
	for i := range producers {
		c.blocks = append(c.blocks, newBlock(i))
	}
	return c
}

func (c *census) take(records [][]byte) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, line := range records {
		producer, number, ok := recordID(line)
		if !ok || producer >= producers || !c.blocks[producer].has(line, number) {
			c.broken = string(line)
			continue
		}
		seen := &c.seen[producer]
		if number >= len(*seen) {
			*seen = append(*seen, make([]bool, number+1-len(*seen))...)
		}
		if !(*seen)[number] {
			(*seen)[number] = true
			c.count++
		}
	}
	c.last = arrival{c.count, time.Now()}
	if c.first.count == 0 {
		c.first = c.last
	}
}

// missing is how many of the first so many records of each producer have not arrived. mu is held, or nothing
// comes any more.
func (c *census) missing(each []int) (n int) {
	for producer, sent := range each {
		seen := c.seen[producer]
		n += max(0, sent-len(seen))
		for _, there := range seen[:min(sent, len(seen))] {
			if !there {
				n++
			}
		}
	}
	return n
}

// handler takes lines, bulk requests of Elasticsearch, and requests of OTLP.
func (c *census) handler() http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		if err != nil {
			http.Error(w, err.Error(), http.StatusBadRequest)
			return
		}
		lines := bytes.Split(bytes.TrimSuffix(body, []byte("\n")), []byte("\n"))
		w.Header().Set("X-Elastic-Product", "Elasticsearch")
		w.Header().Set("Content-Type", "application/json")
		switch {
		case r.Method == http.MethodGet && r.URL.Path == "/": // clients of Elasticsearch ask before they send
			_, _ = io.WriteString(w, `{"version":{"number":"7.17.0","build_flavor":"default"},"tagline":"You Know, for Search"}`)
		case r.URL.Path == "/_license":
			_, _ = io.WriteString(w, `{"license":{"uid":"bench","type":"basic","status":"active"}}`)
		case r.URL.Path == "/_bulk":
			records := documents(lines)
			c.take(records)
			items := strings.TrimSuffix(strings.Repeat(`{"create":{"status":201}},`, len(records)), ",")
			_, _ = io.WriteString(w, `{"took":0,"errors":false,"items":[`+items+`]}`)
		case r.URL.Path == otlpPath:
			c.take(texts(body))
			w.Header().Set("Content-Type", "application/x-protobuf") // of an empty message: all was taken
		case r.Method == http.MethodPost:
			c.take(lines)
		}
	})
}

// documents are the records of a bulk request: each is a document, or the message of one.
func documents(lines [][]byte) (records [][]byte) {
	for _, line := range lines {
		if bytes.HasPrefix(line, []byte(`{"index":`)) || bytes.HasPrefix(line, []byte(`{"create":`)) {
			continue // it says what to do with the next
		}
		if _, _, ok := recordID(line); !ok {
			// Only that string is decoded: the receiver shares the processors with what is measured.
			var text string
			if _, rest, ok := bytes.Cut(line, []byte(`"message":`)); ok && json.NewDecoder(bytes.NewReader(rest)).Decode(&text) == nil {
				line = []byte(text)
			}
		}
		records = append(records, line)
	}
	return records
}

// texts are the records in a request of OTLP, which has them as they were sent.
func texts(request []byte) (records [][]byte) {
	for {
		at := bytes.Index(request, []byte(idPrefix))
		if at < 0 {
			return records
		}
		n := min(len(request), at+recordBytes-1)
		records, request = append(records, request[at:n]), request[n:]
	}
}
