package kafkasink

import (
	"context"
	"crypto/sha256"
	"strings"
	"testing"
)

// The exchange of RFC 7677, section 3.
const (
	rfcNonce     = "rOprNGfwEbeRWgbNEkqO"
	rfcChallenge = "r=rOprNGfwEbeRWgbNEkqO%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0,s=W22ZaJ0SNY7soEsUEjb6gQ==,i=4096"
	rfcProof     = "c=biws,r=rOprNGfwEbeRWgbNEkqO%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0,p=dHzbZapWIk4jUhN+Ute9ytag9zjfMHgsqmmiz7AndVQ="
	rfcFinal     = "v=6rriTRBi23WpRR/wtup+mMhUZUn/dB5nLTJRsjl95G4="
)

func rfcExchange() *scram {
	return &scram{hash: sha256.New, password: "pencil", nonce: rfcNonce, first: "n=user,r=" + rfcNonce}
}

func TestScramOfTheRFC(t *testing.T) {
	s := rfcExchange()
	done, answer, err := s.Next(context.Background(), []byte(rfcChallenge))
	if done || string(answer) != rfcProof || err != nil {
		t.Fatalf("got %t, %q, %v, want the proof %q", done, answer, err, rfcProof)
	}
	if done, answer, err = s.Next(context.Background(), []byte(rfcFinal)); !done || len(answer) > 0 || err != nil {
		t.Errorf("got %t, %q, %v, want the end", done, answer, err)
	}
}

// A broker that does not know the password, or repeats what it heard, is none to send records to.
func TestScramRefusesBrokers(t *testing.T) {
	for name, test := range map[string]struct{ challenge, final, want string }{
		"nonce of another":    {strings.Replace(rfcChallenge, "r=rO", "r=RO", 1), "", "nonce"},
		"nonce not extended":  {"r=" + rfcNonce + ",s=W22ZaJ0SNY7soEsUEjb6gQ==,i=4096", "", "nonce"},
		"too many iterations": {strings.Replace(rfcChallenge, "4096", "99999999", 1), "", "iterations"},
		"no iteration":        {strings.Replace(rfcChallenge, "4096", "0", 1), "", "iterations"},
		"salt is no base64":   {strings.Replace(rfcChallenge, "s=W", "s=!", 1), "", "salt"},
		"an extension":        {"m=x," + rfcChallenge, "", "malformed"},
		"refused":             {rfcChallenge, "e=invalid-proof", "invalid-proof"},
		"another signature":   {rfcChallenge, "v=7rriTRBi23WpRR/wtup+mMhUZUn/dB5nLTJRsjl95G4=", "signature is wrong"},
		"no signature":        {rfcChallenge, "v=", "signature is wrong"},
	} {
		t.Run(name, func(t *testing.T) {
			s := rfcExchange()
			_, _, err := s.Next(context.Background(), []byte(test.challenge))
			if test.final != "" {
				if err != nil {
					t.Fatal(err)
				}
				_, _, err = s.Next(context.Background(), []byte(test.final))
			}
			if err == nil || !strings.Contains(err.Error(), test.want) {
				t.Errorf("got %v, want an error with %q", err, test.want)
			}
		})
	}
}

func TestScramUsername(t *testing.T) {
	if _, first := newScram(sha256.New, "a=b,c", "p"); !strings.HasPrefix(string(first), "n,,n=a=3Db=2Cc,r=") {
		t.Errorf("got %q, want = and , escaped", first)
	}
}
