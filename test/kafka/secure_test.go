package kafka

import (
	"encoding/base64"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"

	"github.com/docket-export/docket/internal/testcert"
	"github.com/docket-export/docket/test/dockettest"
	"github.com/docket-export/docket/test/kafkatest"
)

// access is one way to reach a secure listener: the lines of the section kafka
// that say it, and the user whom the broker sees.
type access struct {
	cluster *kafkatest.Secure
	address string // of the listener
	user    string
	lines   []string // but for brokers, topic and key
	secret  string   // file with the password or token
}

// sasl is the access to the listener with SASL by mechanism, with a secret.
func sasl(t *testing.T, cluster *kafkatest.Secure, mechanism, user, secret string) *access {
	t.Helper()
	a := &access{cluster: cluster, address: cluster.SASL, user: user, secret: filepath.Join(t.TempDir(), "secret")}
	a.setSecret(t, secret)
	keys := fmt.Sprintf("username: %s, passwordFile: %q", user, a.secret)
	if mechanism == "OAUTHBEARER" {
		keys = fmt.Sprintf("tokenFile: %q", a.secret)
	}
	a.lines = []string{
		fmt.Sprintf("tls: {caFile: %q}", cluster.CA.File),
		fmt.Sprintf("sasl: {mechanism: %s, %s}", mechanism, keys),
	}
	return a
}

// mutual is the access to the listener that wants a client certificate.
func mutual(cluster *kafkatest.Secure, client testcert.Pair, name string) *access {
	return &access{cluster: cluster, address: cluster.MTLS, user: "CN=" + name, lines: []string{
		fmt.Sprintf("tls: {caFile: %q, certFile: %q, keyFile: %q}", cluster.CA.File, client.CertFile, client.KeyFile),
	}}
}

func (a *access) setSecret(t *testing.T, secret string) {
	t.Helper()
	if err := os.WriteFile(a.secret, []byte(secret), 0o600); err != nil {
		t.Fatal(err)
	}
}

func (a *access) config(d *dockettest.Docket, topic string) string {
	return configTo(d, strings.Join(append(a.lines,
		fmt.Sprintf("brokers: [%q]", a.address), "topic: "+topic, "key: [key]"), "\n"))
}

// token is a token of OAUTHBEARER without a signature.
func token(user string, expires time.Time) string {
	part := func(json string) string { return base64.RawURLEncoding.EncodeToString([]byte(json)) }
	return part(`{"alg":"none"}`) + "." +
		part(fmt.Sprintf(`{"sub":%q,"iat":%d,"exp":%d}`, user, time.Now().Add(-time.Hour).Unix(), expires.Unix())) + "."
}

const (
	scramUser     = "docket"
	scramPassword = "the password, with a comma and ½ a character" // one that SASLprep would change
)

// secureLines is what each of the tests here sends.
const secureLines = 200

// TestSecureListeners delivers over TLS in every way to authenticate that docket
// knows. Then it makes the mistakes that operators make: each must be told from
// the others in /status, with what to do, and be over when it is mended, without a
// restart.
func TestSecureListeners(t *testing.T) {
	cluster := kafkatest.StartSecure(t)
	cluster.SetPassword(scramUser, scramPassword)
	soon := time.Now().Add(time.Hour)
	for name, a := range map[string]*access{
		"scram-256":   sasl(t, cluster, "SCRAM-SHA-256", scramUser, scramPassword),
		"scram-512":   sasl(t, cluster, "SCRAM-SHA-512", scramUser, scramPassword),
		"plain":       sasl(t, cluster, "PLAIN", kafkatest.PlainUser, kafkatest.PlainPassword),
		"oauthbearer": sasl(t, cluster, "OAUTHBEARER", "bearer", token("bearer", soon)),
		"certificate": mutual(cluster, cluster.CA.Issue(t, "client"), "client"),
	} {
		t.Run(name, func(t *testing.T) {
			cluster.CreateTopic(name, 3, 1)
			cluster.Permit(a.user, name, kadm.OpWrite)
			d := startSecure(t, a, name)
			checkSecure(t, d, cluster, name)
		})
	}
	t.Run("mistakes", func(t *testing.T) { mistakes(t, cluster) })
}

// mistake is something that an operator has got wrong.
type mistake struct {
	access *access
	permit []kadm.ACLOperation
	reason string             // of the sink's state
	want   string             // in its last error
	mend   func(topic string) // nil: by a new configuration only
}

func mistakes(t *testing.T, cluster *kafkatest.Secure) {
	right := func() *access { return sasl(t, cluster, "SCRAM-SHA-512", scramUser, scramPassword) }
	write := []kadm.ACLOperation{kadm.OpWrite}

	password := sasl(t, cluster, "SCRAM-SHA-512", scramUser, "the wrong password")
	expired := sasl(t, cluster, "OAUTHBEARER", "bearer", token("bearer", time.Now().Add(-time.Minute)))
	describe, nothing := right(), right()
	noSASL := &access{address: cluster.SASL, lines: []string{fmt.Sprintf("tls: {caFile: %q}", cluster.CA.File)}}
	noTLS := &access{address: cluster.MTLS}
	noCertificate := &access{address: cluster.MTLS, lines: noSASL.lines}
	otherCA := &access{address: cluster.MTLS, lines: []string{fmt.Sprintf("tls: {caFile: %q}", testcert.NewCA(t).File)}}

	for name, m := range map[string]mistake{
		"wrong-password": {
			access: password, permit: write, reason: "Misconfigured",
			want: "check kafka.sasl.username, and the password in " + password.secret,
			mend: func(string) { password.setSecret(t, scramPassword) },
		},
		"expired-token": {
			access: expired, permit: write, reason: "Misconfigured",
			want: "check the token in " + expired.secret,
			mend: func(string) { expired.setSecret(t, token("bearer", time.Now().Add(time.Hour))) },
		},
		"may-not-write": {
			access: describe, permit: []kadm.ACLOperation{kadm.OpDescribe}, reason: "Misconfigured",
			want: "permit this client to write to the topic",
			mend: func(topic string) { cluster.Permit(describe.user, topic, kadm.OpWrite) },
		},
		"may-not-describe": {
			access: nothing, reason: "Misconfigured", want: "permit this client to write to the topic",
			mend: func(topic string) { cluster.Permit(nothing.user, topic, kadm.OpWrite) },
		},
		"no-sasl":        {access: noSASL, reason: "Transient", want: "check whether its port expects TLS or SASL"},
		"no-tls":         {access: noTLS, reason: "Misconfigured", want: "set kafka.tls"},
		"no-certificate": {access: noCertificate, reason: "Misconfigured", want: "kafka.tls.certFile"},
		"another-ca":     {access: otherCA, reason: "Misconfigured", want: "kafka.tls.caFile"},
	} {
		t.Run(name, func(t *testing.T) {
			cluster.CreateTopic(name, 3, 1)
			if len(m.permit) > 0 {
				cluster.Permit(m.access.user, name, m.permit...)
			}
			d := startSecure(t, m.access, name)
			awaitMistake(t, d, m)
			if m.mend != nil {
				m.mend(name)
				checkSecure(t, d, cluster, name)
			}
		})
	}
}

// awaitMistake waits until /status tells what is wrong. The password never is in
// it.
func awaitMistake(t *testing.T, d *dockettest.Docket, m mistake) {
	t.Helper()
	status := d.Await("the mistake to be reported", deliverTimeout, func(s dockettest.Status) error {
		if sink := s.Sink("bus"); sink.Reason != m.reason || !strings.Contains(sink.LastError, m.want) {
			return fmt.Errorf("sink bus is %+v, want %s and a text with %q", sink, m.reason, m.want)
		}
		return nil
	})
	text := status.Sink("bus").LastError
	t.Logf("/status says: %s", text)
	if strings.Contains(text, "the wrong password") {
		t.Errorf("/status shows the password: %s", text)
	}
	if err := d.Ready(); err != nil {
		t.Errorf("docket is not ready: %v", err)
	}
}

// startSecure starts docket with a topic that it reaches by a, and sends it the
// lines.
func startSecure(t *testing.T, a *access, topic string) *dockettest.Docket {
	t.Helper()
	d := dockettest.New(t)
	d.Start(a.config(d, topic))
	d.Send([]byte(strings.Join(numbered(secureLines), "\n") + "\n"))
	return d
}

// checkSecure waits for the delivery of all lines, and reads them back.
func checkSecure(t *testing.T, d *dockettest.Docket, cluster *kafkatest.Secure, topic string) {
	t.Helper()
	d.Await("everything to be delivered", deliverTimeout, delivered(secureLines))
	left := map[string]bool{}
	for _, line := range numbered(secureLines) {
		left[line] = true
	}
	for _, r := range cluster.ReadAll(topic) {
		delete(left, string(r.Value))
	}
	if len(left) > 0 {
		t.Errorf("%d lines are not in the topic", len(left))
	}
	d.Stop()
}
