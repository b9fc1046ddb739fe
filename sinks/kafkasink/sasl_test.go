package kafkasink

import (
	"context"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/segmentio/kafka-go/sasl"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/docket-export/docket/config"
	"github.com/docket-export/docket/sinks"
)

const password = "s3cret, with a comma"

// secretFile is a file with a secret, and what changes it as a rotation does.
func secretFile(t *testing.T, secret string) (file config.SecretFile, rotate func(string)) {
	t.Helper()
	path := filepath.Join(t.TempDir(), "secret")
	age := time.Duration(0)
	rotate = func(secret string) {
		t.Helper()
		if err := os.WriteFile(path, []byte(secret+"\n"), 0o600); err != nil {
			t.Fatal(err)
		}
		// Two files of one size made within a tick of the clock would look the same.
		age += time.Second
		if err := os.Chtimes(path, time.Now(), time.Now().Add(age)); err != nil {
			t.Fatal(err)
		}
	}
	rotate(secret)
	return config.SecretFile(path), rotate
}

func withSASL(m Mechanism, user string, file config.SecretFile) func(*Config) {
	return func(c *Config) {
		c.SASL = &SASL{Mechanism: m, Username: user, PasswordFile: file}
		if m == OAuthBearer {
			c.SASL.PasswordFile, c.SASL.TokenFile = "", file
		}
	}
}

func TestSASL(t *testing.T) {
	for _, m := range []Mechanism{Plain, ScramSHA256, ScramSHA512} {
		t.Run(string(m), func(t *testing.T) {
			b := startBrokers(t, 2, kfake.EnableSASL(), kfake.Superuser(string(m), "docket", password))
			file, rotate := secretFile(t, "wrong")
			s := openSink(t, b.ListenAddrs(), withSASL(m, "docket", file))
			// This broker hangs up where others say [58].
			f := sendFails(t, s, batch(1, `{"a":1}`), sinks.Transient, "kafka.tls and kafka.sasl")
			if strings.Contains(f.Error(), "wrong") {
				t.Errorf("the error shows the password: %v", f)
			}
			rotate(password)
			send(t, s, batch(1, `{"a":1}`))
			if got, want := b.stored(t), []int{1, 0}; !slices.Equal(got, want) {
				t.Errorf("the partitions hold %v messages, want %v", got, want)
			}
		})
	}
}

// authenticator stands in for a broker's SASL: it takes what is in accept, and
// counts the logins. The first challenge of a refused login is challenge.
type authenticator struct {
	mu        sync.Mutex
	accept    string
	challenge string
	seen      []string
}

func (a *authenticator) set(accept string) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.accept = accept
}

func (a *authenticator) logins() []string {
	a.mu.Lock()
	defer a.mu.Unlock()
	return slices.Clone(a.seen)
}

func (a *authenticator) control(b *brokers) {
	b.ControlKey(int16(kmsg.SASLHandshake), func(req kmsg.Request) (kmsg.Response, error, bool) {
		b.KeepControl()
		return req.ResponseKind(), nil, true
	})
	b.ControlKey(int16(kmsg.SASLAuthenticate), func(req kmsg.Request) (kmsg.Response, error, bool) {
		b.KeepControl()
		a.mu.Lock()
		defer a.mu.Unlock()
		res := req.ResponseKind().(*kmsg.SASLAuthenticateResponse)
		said := string(req.(*kmsg.SASLAuthenticateRequest).SASLAuthBytes)
		a.seen = append(a.seen, said)
		switch {
		case said == a.accept:
		case said != "\x01" && a.challenge != "":
			res.SASLAuthBytes = []byte(a.challenge)
		default:
			res.ErrorCode = 58
			text := "Authentication failed: " + a.challenge
			res.ErrorMessage = &text
		}
		return res, nil, true
	})
}

func bearerMessage(token string) string { return "n,,\x01auth=Bearer " + token + "\x01\x01" }

func TestOAuthBearer(t *testing.T) {
	b := startBrokers(t, 1)
	a := &authenticator{accept: bearerMessage("token-2"), challenge: `{"status":"invalid_token"}`}
	a.control(b)
	file, rotate := secretFile(t, "token-1")
	s := openSink(t, b.ListenAddrs(), withSASL(OAuthBearer, "", file))
	f := sendFails(t, s, batch(1, `{"a":1}`), sinks.Misconfigured, "[58]", "invalid_token", "check the token in "+string(file))
	if strings.Contains(f.Error(), "token-1") {
		t.Errorf("the error shows the token: %v", f)
	}
	if got := a.logins(); len(got) < 2 || got[0] != bearerMessage("token-1") || got[1] != "\x01" {
		t.Errorf("the broker was told %q, want the token and then an end", got)
	}
	rotate("token-2")
	send(t, s, batch(1, `{"a":1}`))

	// A new token is in use before the session of the old one ends.
	a.set(bearerMessage("token-3"))
	rotate("token-3")
	send(t, s, batch(2, `{"a":2}`))
	if got, want := a.logins(), bearerMessage("token-3"); got[len(got)-1] != want {
		t.Errorf("the last login is %q, want %q: connections made anew", got[len(got)-1], want)
	}
}

// A broker that goes on after its challenge has refused the token all the same.
func TestOAuthBearerRefusedWithoutError(t *testing.T) {
	var state bearer
	if done, answer, err := state.Next(context.Background(), []byte(`{"status":"invalid_token"}`)); done || string(answer) != "\x01" || err != nil {
		t.Fatalf("Next = %v, %q, %v, want a byte as answer to the challenge", done, answer, err)
	}
	if done, _, err := state.Next(context.Background(), nil); done || err == nil {
		t.Errorf("Next = %v, %v, want an error: the token was refused", done, err)
	}
}

// Somebody who has to act is asked to: a wrong password is not tried again and
// again in the meantime, which may lock the account.
func TestRefusedLoginIsNotRepeated(t *testing.T) {
	b := startBrokers(t, 1)
	a := &authenticator{accept: "\x00docket\x00right"}
	a.control(b)
	file, rotate := secretFile(t, "wrong")
	s := openSink(t, b.ListenAddrs(), withSASL(Plain, "docket", file))
	sendFails(t, s, batch(1, `{"a":1}`), sinks.Misconfigured, "[58]", "check kafka.sasl.username, and the password in "+string(file))
	if s.(*sink).cluster != nil {
		t.Error("the transport is kept, which goes on to log in; want it closed")
	}
	rotate("right")
	send(t, s, batch(1, `{"a":1}`))
}

func TestUnreadableSecret(t *testing.T) {
	b := startBrokers(t, 1)
	a := &authenticator{accept: "\x00docket\x00right"}
	a.control(b)
	file, rotate := secretFile(t, "right")
	s := openSink(t, b.ListenAddrs(), withSASL(Plain, "docket", file))
	send(t, s, batch(1, `{"a":1}`))
	if err := os.Remove(string(file)); err != nil {
		t.Fatal(err)
	}
	sendFails(t, s, batch(2, `{"a":2}`), sinks.Misconfigured, "kafka.sasl", string(file), "mount it")

	c := *s.(*sink).config
	if _, err := c.Open(context.Background(), sinks.Env{Log: slog.New(slog.DiscardHandler)}); err == nil || !strings.Contains(err.Error(), string(file)) {
		t.Errorf("Open = %v, want an error that names %s", err, file)
	}
	rotate("right")
	send(t, s, batch(2, `{"a":2}`))
}

// The names of brokers that are found through others are theirs to choose.
func TestSecretStaysOnThisMachine(t *testing.T) {
	file, _ := secretFile(t, password)
	for _, test := range []struct {
		mechanism Mechanism
		plaintext bool
		host      string
		refused   bool
	}{
		{Plain, true, "127.0.0.1", false},
		{Plain, true, "::1", false},
		{Plain, true, "localhost", false},
		{Plain, true, "kafka-1.example.com", true},
		{Plain, false, "kafka-1.example.com", false},
		{OAuthBearer, true, "10.0.0.1", true},
		{OAuthBearer, false, "10.0.0.1", false},
		{ScramSHA256, true, "10.0.0.1", false},
		{ScramSHA512, true, "10.0.0.1", false},
	} {
		l := login{SASL: &SASL{Mechanism: test.mechanism, Username: "docket", PasswordFile: file, TokenFile: file}, plaintext: test.plaintext}
		_, message, err := l.Start(sasl.WithMetadata(context.Background(), &sasl.Metadata{Host: test.host, Port: 9092}))
		if (err != nil) != test.refused {
			t.Errorf("%s to %s, in plain text: %v: error %v, want one: %v", test.mechanism, test.host, test.plaintext, err, test.refused)
		}
		if err != nil && (len(message) > 0 || sinks.FailureOf(err).Kind != sinks.Misconfigured || !strings.Contains(err.Error(), test.host)) {
			t.Errorf("%s to %s: %q is sent, error %v of kind %v, want nothing and Misconfigured", test.mechanism, test.host, message, err, sinks.FailureOf(err).Kind)
		}
		if strings.HasPrefix(string(test.mechanism), "SCRAM") && strings.Contains(string(message), password) {
			t.Errorf("%s sends the password as it is: %q", test.mechanism, message)
		}
	}
}

// Brokers keep a password as it is. SASLprep would change the first, and refuse the second.
func TestScramPasswordAsItIs(t *testing.T) {
	for _, secret := range []string{"half is \u00bd", "right-to-left \u0627 among others"} {
		b := startBrokers(t, 1, kfake.EnableSASL(), kfake.Superuser(string(ScramSHA512), "docket", secret))
		file, _ := secretFile(t, secret)
		s := openSink(t, b.ListenAddrs(), withSASL(ScramSHA512, "docket", file))
		send(t, s, batch(1, `{"a":1}`))
	}
}
