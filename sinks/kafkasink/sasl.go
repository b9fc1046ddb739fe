package kafkasink

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"regexp"
	"strconv"

	"github.com/segmentio/kafka-go/sasl"
	"github.com/segmentio/kafka-go/sasl/plain"
	kgosasl "github.com/twmb/franz-go/pkg/sasl"
	"github.com/twmb/franz-go/pkg/sasl/scram"

	"github.com/docket-export/docket/config"
	"github.com/docket-export/docket/sinks"
)

// Mechanism is a way to authenticate by SASL.
type Mechanism string

// The mechanisms, by the names that brokers have for them.
const (
	Plain       Mechanism = "PLAIN"
	ScramSHA256 Mechanism = "SCRAM-SHA-256"
	ScramSHA512 Mechanism = "SCRAM-SHA-512"
	OAuthBearer Mechanism = "OAUTHBEARER"
)

// showsSecret says whether whoever listens to the connection has the secret.
func (m Mechanism) showsSecret() bool { return m == Plain || m == OAuthBearer }

// secretFile is the file that the mechanism needs.
func (s *SASL) secretFile() config.SecretFile {
	if s.Mechanism == OAuthBearer {
		return s.TokenFile
	}
	return s.PasswordFile
}

// version names the state of the secret's file; it is empty while the file
// cannot be seen.
func (s *SASL) version() string {
	info, err := os.Stat(string(s.secretFile()))
	if err != nil {
		return ""
	}
	return fmt.Sprintf("%d-%d", info.ModTime().UnixNano(), info.Size())
}

// login is the sasl.Mechanism of a SASL section.
type login struct {
	*SASL
	plaintext bool // connections are not TLS
}

// Name implements sasl.Mechanism.
func (l login) Name() string { return string(l.Mechanism) }

// Start implements sasl.Mechanism. It reads the secret: that of a connection is
// as old as the connection.
func (l login) Start(ctx context.Context) (sasl.StateMachine, []byte, error) {
	// The brokers of the configuration have been checked. Others are found
	// through them, and have the names that they give themselves.
	if at := sasl.MetadataFromContext(ctx); l.plaintext && l.Mechanism.showsSecret() &&
		!config.Loopback(net.JoinHostPort(at.Host, strconv.Itoa(at.Port))) {
		return nil, nil, sinks.Failf(sinks.Misconfigured,
			"kafka.sasl: %s would send the secret to %s unencrypted: set kafka.tls, or use SCRAM-SHA-512", l.Mechanism, at.Host)
	}
	secret, err := l.secretFile().Read()
	if err != nil {
		return nil, nil, sinks.Failf(sinks.Misconfigured, "kafka.sasl: %w", err)
	}
	switch l.Mechanism {
	case Plain:
		return plain.Mechanism{Username: l.Username, Password: secret}.Start(ctx)
	case ScramSHA256:
		return startScram(ctx, scram.Auth{User: l.Username, Pass: secret}.AsSha256Mechanism())
	case ScramSHA512:
		return startScram(ctx, scram.Auth{User: l.Username, Pass: secret}.AsSha512Mechanism())
	case OAuthBearer:
		return &bearer{}, []byte("n,,\x01auth=Bearer " + secret + "\x01\x01"), nil
	}
	return nil, nil, fmt.Errorf("kafka.sasl: mechanism %q is unknown", l.Mechanism)
}

// bearer is the exchange of OAUTHBEARER (RFC 7628) once the token is sent.
type bearer struct {
	refused bool
}

var errTokenRefused = errors.New("the broker refused the token")

// Next implements sasl.StateMachine. A broker that takes the token has nothing
// to say. One that does not says why, and wants a byte for an answer before it
// ends the exchange with its own error.
func (b *bearer) Next(_ context.Context, challenge []byte) (done bool, answer []byte, err error) {
	switch {
	case b.refused:
		return false, nil, errTokenRefused
	case len(challenge) == 0:
		return true, nil, nil
	}
	b.refused = true
	return false, []byte{1}, nil
}

// maxIterations bounds the work that a broker can ask for: half a second. Kafka
// itself allows 16384.
const maxIterations = 1 << 20

// scramExchange is SCRAM (RFC 5802) for the connections of kafka-go, whose own SCRAM
// prepares the password by SASLprep. Kafka's brokers keep it as it is.
type scramExchange struct{ session kgosasl.Session }

func startScram(ctx context.Context, m kgosasl.Mechanism) (sasl.StateMachine, []byte, error) {
	session, first, err := m.Authenticate(ctx, "")
	return scramExchange{session}, first, err
}

// iterationsOf is the third member of a broker's first message: r=NONCE,s=SALT,i=ITERATIONS.
var iterationsOf = regexp.MustCompile(`,i=([^,]*)`)

// Next implements sasl.StateMachine.
func (x scramExchange) Next(_ context.Context, challenge []byte) (done bool, answer []byte, err error) {
	if asked := iterationsOf.FindSubmatch(challenge); asked != nil {
		if n, err := strconv.Atoi(string(asked[1])); err != nil || n > maxIterations {
			return false, nil, fmt.Errorf("the broker asks for %.20q iterations of SCRAM: at most %d are allowed", asked[1], maxIterations)
		}
	}
	return x.session.Challenge(challenge)
}
