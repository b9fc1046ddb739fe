package main

import (
	"bytes"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	"golang.org/x/sys/unix"

	"github.com/docket-export/docket/bench/load"
	"github.com/docket-export/docket/bench/process"
	"github.com/docket-export/docket/bench/record"
	"github.com/docket-export/docket/bench/trial"
)

// restWait is how long docket is left alone before its memory is measured.
const restWait = 3 * time.Second

// restingMemory is the resident memory in MB after a while of rest.
func (s *sidecar) restingMemory() float64 {
	s.lab.Sleep(restWait)
	return s.Memory("VmRSS")
}

// idle measures a docket with a producer that says nothing.
func (l *lab) idle() values {
	dir := l.scratch()
	s := l.start(dir, fileEntry(fileSink, filepath.Join(dir, "export")))
	defer trial.Must(load.Connect(s.socket, 0, nil)).Close()
	binary := trial.Must(os.Stat(l.docket))
	return values{"memory": s.restingMemory(), "binary": float64(binary.Size()) / 1e6}
}

const (
	idleFor     = 10 * time.Second
	idleSettled = 4 * time.Second
)

// idleSources has docket wait for things that do not happen.
func (l *lab) idleSources() values {
	dir := l.scratch()
	topics, log := filepath.Join(dir, "topics"), filepath.Join(dir, "engine.log")
	trial.Check(os.MkdirAll(filepath.Join(topics, "audit-channel"), 0o777))
	const lines = 10
	trial.Check(os.WriteFile(log, bytes.Repeat([]byte("{}\n"), lines), 0o600))
	s := l.startSetup(dir, setup{sources: []string{
		fmt.Sprintf(`- {name: export, gatekeeper: {path: %q}}`, topics),
		fmt.Sprintf(`- {name: log, tail: {path: %q, format: json}}`, log),
		fmt.Sprintf(`- {name: opa, opa: {address: %q}}`, process.FreeAddress()),
		fmt.Sprintf(`- {name: apiserver, kubernetesAudit: {address: %q}}`, process.FreeAddress()),
	}, sinks: []string{heldEntry()}})
	s.waitStored(lines)
	l.Sleep(idleSettled)
	cpu := s.CPUOf(func() { l.Sleep(idleFor) })
	return values{"cpu": cpu.Seconds() * 1e3 / idleFor.Seconds(), "memory": s.Memory("VmRSS")}
}

const (
	crowdSize = 1000
	// crowdBurst is how many records a producer sends at once: 256 KB.
	crowdBurst = 256
	// otherFiles is more than a process has open beside the connections.
	otherFiles = 100
)

// openFiles is how many files docket, and this process, may have open. Both raise their
// limit as far as they may.
func openFiles() uint64 {
	var limit unix.Rlimit
	trial.Check(unix.Getrlimit(unix.RLIMIT_NOFILE, &limit))
	return limit.Max
}

func enoughFiles(limit uint64) error {
	if limit < crowdSize+otherFiles {
		return fmt.Errorf("a process may have %d files open and %d producers need %d: raise the hard limit (ulimit -Hn), or leave this out with -only",
			limit, crowdSize, crowdSize+otherFiles)
	}
	return nil
}

// connected measures what a producer costs that is connected and says nothing.
func (l *lab) connected() values {
	dir := l.scratch()
	s := l.start(dir, fileEntry(fileSink, filepath.Join(dir, "export")))
	block := record.NewBlock(0)
	first := joinCrowd(l.T, s.socket, block, 0, 1)
	first.send(1)
	before := s.restingMemory()
	v := values{"before": before}
	each := func(key string) { v[key] = (s.restingMemory() - before) * 1e6 / 1024 / crowdSize }
	others := joinCrowd(l.T, s.socket, block, 1, crowdSize)
	each("greeted")
	others.send(1)
	each("one")
	others.send(crowdBurst)
	each("burst")
	return v
}

// crowd are producers that send one after the other. They share a block.
type crowd []*load.Producer

// joinCrowd connects n producers until the measurement ends, numbered from first on.
func joinCrowd(t *trial.T, socket string, block *record.Block, first, n int) (c crowd) {
	for i := range n {
		p := trial.Must(load.Connect(socket, first+i, block))
		t.Cleanup(func() error { p.Close(); return nil })
		c = append(c, p)
	}
	return c
}

// send returns when each has sent so many records, all at once, and has the ack.
func (c crowd) send(records int) {
	for _, p := range c {
		trial.Must(p.Send(records, records))
	}
}

const (
	// paceTick is how often a paced producer sends.
	paceTick = 10 * time.Millisecond
	// paceTime is how long each rate is held. At the lowest of them 50 records come.
	paceTime = 5 * time.Second
	// scaleBrokers is the size of the cluster.
	scaleBrokers = 3
)

// paces looks at a sidecar at several rates, in records a second.
func (l *lab) paces() values {
	v := values{}
	for _, pace := range []int{10, 1000, 50_000} {
		l.part(func(l *lab) {
			for key, value := range l.atPace(pace) {
				v[key+strconv.Itoa(pace)] = value
			}
		})
	}
	return v
}

// atPace measures one docket at one rate.
func (l *lab) atPace(pace int) values {
	dir := l.scratch()
	var requests, sent atomic.Int64
	brokers := newBrokers(l.T, scaleBrokers, net.Listen, func(records int) {
		requests.Add(1)
		sent.Add(int64(records))
	})
	s := l.start(dir, kafkaEntry("kafka", brokers.ListenAddrs()[0]))
	// What docket has used and asked for since it started.
	usage := func() values {
		return values{
			"cpu": s.CPUTime().Seconds() * 1e3, "commits": s.commits(), "written": diskWritten(dir) / 1e3,
			"requests": float64(requests.Load()), "wire": float64(brokers.received.Load()), "sent": float64(sent.Load()),
		}
	}
	p := trial.Must(load.Connect(s.socket, 0, record.NewBlock(0)))
	defer p.Close()
	// Until there is a connection to every leader, and the buffers are there.
	sendAtPace(l.T, p, pace, time.Second)
	settle(l.T, filepath.Join(dir, "queue"))
	before, began := usage(), time.Now()
	sendAtPace(l.T, p, pace, paceTime)
	used, seconds := usage(), time.Since(began).Seconds()
	for key := range used {
		used[key] = (used[key] - before[key]) / seconds
	}
	used["wire"] /= used["sent"]
	delete(used, "sent")
	used["memory"] = s.Memory("VmRSS")
	return used
}

// sendAtPace sends so many records a second for a time, and has the acks of all.
func sendAtPace(t *trial.T, p *load.Producer, pace int, d time.Duration) {
	tick := max(paceTick, time.Second/time.Duration(pace))
	each := max(1, int(time.Duration(pace)*tick/time.Second))
	began := time.Now()
	for due := began; time.Since(began) < d; due = due.Add(tick) {
		trial.Must(p.Send(each, each))
		t.Sleep(time.Until(due.Add(tick)))
	}
}

// diskWritten is what was written to the disk that holds dir, by any process: what the
// kernel tells of one counts whole folios of the page cache, which may be 256
// times what reaches the disk.
func diskWritten(dir string) float64 {
	var st unix.Stat_t
	trial.Check(unix.Stat(dir, &st))
	const sectorsWritten, sectorBytes = 6, 512 // see Documentation/block/stat.rst of Linux
	name := fmt.Sprintf("/sys/dev/block/%d:%d/stat", unix.Major(st.Dev), unix.Minor(st.Dev))
	fields := strings.Fields(string(trial.Must(os.ReadFile(name))))
	if len(fields) <= sectorsWritten {
		trial.Check(fmt.Errorf("%s has %d fields", name, len(fields)))
	}
	return trial.Must(strconv.ParseFloat(fields[sectorsWritten], 64)) * sectorBytes
}
