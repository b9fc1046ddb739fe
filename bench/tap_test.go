package bench

import (
	"bytes"
	"crypto/tls"
	"fmt"
	"io"
	"net/http"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/docket-export/docket/internal/testcert"
)

const (
	reviewBytes = 10 << 10
	// reviewRate is how many reviews a second are due by the clock.
	reviewRate = 500
	// callers ask again when they have their answer.
	callers = 16
	// deniedOneIn: most of what is asked is allowed, and leaves no record by default.
	deniedOneIn = 10
)

// BenchmarkTap is admission reviews over TLS and HTTP/1.1, straight to an engine that does nothing with them,
// and through a docket tap that has the denied ones recorded by a docket. First they come at a steady rate:
// the time of each counts from when it is due. Then 16 callers ask as fast as they are answered.
// BenchmarkReview of test/engine compares docket-webhook with Gatekeeper.
func BenchmarkTap(b *testing.B) {
	b.Run("way=direct", func(b *testing.B) { startEngine(b).measure(b) })
	b.Run("way=tap", func(b *testing.B) {
		engine := startEngine(b)
		engine.await(b) // or the tap would record that it is away
		dir := scratch(b)
		d := startDocket(b, dir, fileSink("file", filepath.Join(dir, "export")))
		tap := *engine
		tap.url = "https://" + freeAddress(b)
		tap.process = start(b, nil, *program, "tap", "--listen", strings.TrimPrefix(tap.url, "https://"), "--tls-dir", filepath.Dir(engine.pair.CertFile),
			"--upstream", engine.url, "--upstream-ca", engine.ca.File, "--docket", "unix://"+d.socket)
		denied := tap.measure(b)
		until(b, "a record of each review that was denied", 10*time.Millisecond, func() bool { return d.metric("docket_records_stored_total") >= float64(denied) })
	})
}

// webhook is what is asked.
type webhook struct {
	*process
	url    string
	ca     testcert.CA
	pair   testcert.Pair
	client *http.Client
}

func startEngine(b *testing.B) *webhook {
	b.Helper()
	ca, address := testcert.NewCA(b), freeAddress(b)
	pair := ca.Issue(b, "127.0.0.1")
	env, command := as(b, &admissionEngine{address, pair.CertFile, pair.KeyFile})
	transport := &http.Transport{TLSClientConfig: &tls.Config{RootCAs: ca.Pool}, MaxIdleConnsPerHost: 4 * callers}
	b.Cleanup(transport.CloseIdleConnections)
	return &webhook{start(b, env, command...), "https://" + address, ca, pair, &http.Client{Transport: transport, Timeout: time.Minute}}
}

func (w *webhook) await(b *testing.B) {
	b.Helper()
	w.ready(5*time.Millisecond, func() bool { return w.ask(newReview(false), false) == nil })
}

// measure returns how many reviews were denied.
func (w *webhook) measure(b *testing.B) (denied int) {
	b.Helper()
	w.await(b)
	reviews := map[bool][]byte{false: newReview(false), true: newReview(true)}
	// turn has n reviews asked by some workers, each when it is due.
	turn := func(workers, n int, due func(i int) time.Time) ([]time.Duration, stint) {
		waits := make([]time.Duration, n)
		cpu := w.cpu()
		d, err := timed(workers, func(worker int) error {
			for i := worker; i < n; i += workers {
				since, deny := due(i), i%deniedOneIn == 0
				if err := w.ask(reviews[deny], deny); err != nil {
					return err
				}
				waits[i] = time.Since(since)
			}
			return nil
		})
		check(b, err)
		denied += (n + deniedOneIn - 1) / deniedOneIn
		return waits, stint{records: n, took: d.Taken.Sub(d.Began), cpu: w.cpu() - cpu}
	}
	now := func(int) time.Time { return time.Now() }
	turn(4*callers, 20*callers, now) // each has a connection then
	var waits []time.Duration
	var sum stint
	for b.Loop() {
		began := time.Now()
		more, _ := turn(4*callers, 2*reviewRate, func(i int) time.Time {
			due := began.Add(time.Duration(i) * time.Second / reviewRate)
			sleepUntil(due)
			return due
		})
		waits = append(waits, more...)
		_, s := turn(callers, 4000, now)
		sum.add(s)
	}
	reportWaits(b, waits)
	b.ReportMetric(float64(sum.records)/sum.took.Seconds(), "reviews/s")
	b.ReportMetric(sum.cpu.Seconds()*1e6/float64(sum.records), "us-cpu/review")
	return denied
}

// ask returns an error unless the answer is that of the engine.
func (w *webhook) ask(review []byte, deny bool) error {
	res, err := w.client.Post(w.url+"/v1/admit?timeout=10s", "application/json", bytes.NewReader(review))
	if err != nil {
		return err
	}
	defer res.Body.Close()
	text, err := io.ReadAll(res.Body)
	if err == nil && (res.StatusCode != http.StatusOK || !bytes.Equal(text, verdict(deny))) {
		err = fmt.Errorf("the answer to a review is %s: %.200s", res.Status, text)
	}
	return err
}

// sleepUntil is exact where a timer of Go may be a millisecond late.
func sleepUntil(due time.Time) {
	for {
		left := unix.NsecToTimespec(int64(time.Until(due)))
		if left.Nano() <= 0 || unix.Nanosleep(&left, nil) == nil { // else a signal has come
			return
		}
	}
}

// admissionEngine is the least that an engine does: it reads a review and answers.
type admissionEngine struct{ Address, Cert, Key string }

func (o *admissionEngine) run() (d done, err error) {
	server := &http.Server{Addr: o.Address, ReadHeaderTimeout: time.Minute, Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		text := make([]byte, max(r.ContentLength, 0))
		if _, err := io.ReadFull(r.Body, text); err != nil {
			http.Error(w, err.Error(), http.StatusBadRequest)
			return
		}
		w.Header().Set("Content-Type", "application/json")
		_, _ = w.Write(verdict(bytes.Contains(text[:1024], []byte(`"name":"denied"`)))) // the client finds out
	})}
	return d, server.ListenAndServeTLS(o.Cert, o.Key)
}

const reviewUID = "705ab4f5-6393-11e8-b7cc-42010a800002"

// newReview is what the API server asks about a Deployment.
func newReview(deny bool) []byte {
	name := "allowed"
	if deny {
		name = "denied"
	}
	start := fmt.Sprintf(`{"kind":"AdmissionReview","apiVersion":"admission.k8s.io/v1","request":{"uid":%[1]q,"kind":{"group":"apps","version":"v1","kind":"Deployment"},`+
		`"resource":{"group":"apps","version":"v1","resource":"deployments"},"name":%[2]q,"namespace":"shop","operation":"CREATE",`+
		`"userInfo":{"username":"system:serviceaccount:argocd:argocd-application-controller","groups":["system:serviceaccounts","system:authenticated"]},`+
		`"object":{"apiVersion":"apps/v1","kind":"Deployment","metadata":{"name":%[2]q,"namespace":"shop","labels":{"app":"cart","tier":"backend"},"managedFields":[`, reviewUID, name)
	const manager = `{"manager":"controller","operation":"Update","fieldsV1":{"f:spec":{"f:containers":{"k:{\"name\":\"cart\"}":{".":{},"f:image":{},"f:env":{"k:{\"name\":\"LOG_LEVEL\"}":{".":{},"f:value":{}}}}}}}},`
	const end = `{"manager":"last"}]},"spec":{"replicas":3,"template":{"spec":{"containers":[]}}}},"oldObject":null,"dryRun":false,` +
		`"options":{"kind":"CreateOptions","apiVersion":"meta.k8s.io/v1","fieldManager":"argocd-controller"}}}`
	return []byte(start + strings.Repeat(manager, (reviewBytes-len(start)-len(end))/len(manager)) + end)
}

// verdict is the answer of the engine.
func verdict(deny bool) []byte {
	status := ""
	if deny {
		status = `,"status":{"metadata":{},"message":"[shop-must-have-owner] you must provide labels: {\"owner\", \"team\"}","reason":"Forbidden","code":403}`
	}
	return fmt.Appendf(nil, `{"kind":"AdmissionReview","apiVersion":"admission.k8s.io/v1","response":{"uid":%q,"allowed":%t%s}}`, reviewUID, !deny, status)
}
