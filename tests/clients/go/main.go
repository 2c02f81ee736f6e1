// The Flight SQL client of Go and its driver of database/sql against the server that CLIENT_URL names.
//
// CLIENT_USER and CLIENT_PASSWORD are credentials for a server with authentication, CLIENT_TOKEN is a token of that user,
// CLIENT_CA
// a file with the CA certificate. CLIENT_REFERENCE names a reference server, on which known faults must occur too. The exit
// status
// is 1 if a step failed. With the argument throughput the program measures the rate of a large result; with the argument
// reference
// it is the reference server, with the same authentication.
package main

import (
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"net/url"
	"os"
)

type server struct {
	address, user, password, token string
	tls                            *tls.Config
}

func target() (server, error) { return named("CLIENT_URL") }

// named returns the server named by a variable.
func named(variable string) (server, error) {
	place, err := url.Parse(os.Getenv(variable))
	if err != nil {
		return server{}, err
	}
	s := server{
		address:  place.Host,
		user:     os.Getenv("CLIENT_USER"),
		password: os.Getenv("CLIENT_PASSWORD"),
		token:    os.Getenv("CLIENT_TOKEN"),
	}
	if place.Scheme == "https" {
		pem, err := os.ReadFile(os.Getenv("CLIENT_CA"))
		if err != nil {
			return server{}, err
		}
		roots := x509.NewCertPool()
		if !roots.AppendCertsFromPEM(pem) {
			return server{}, fmt.Errorf("no certificate in %s", os.Getenv("CLIENT_CA"))
		}
		s.tls = &tls.Config{RootCAs: roots}
	}
	return s, nil
}

func main() {
	if len(os.Args) > 1 {
		err := fmt.Errorf("no such argument: %s", os.Args[1])
		switch os.Args[1] {
		case "throughput":
			err = throughput()
		case "reference":
			err = serveReference(os.Getenv("CLIENT_USER"), os.Getenv("CLIENT_PASSWORD"), os.Getenv("CLIENT_TOKEN"))
		}
		if err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		return
	}
	s, err := target()
	if err == nil {
		err = databaseSQL(s)
	}
	if err == nil {
		err = flightSQL(s)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	if failed > 0 {
		os.Exit(1)
	}
}
