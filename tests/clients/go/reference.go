package main

import (
	"context"
	"crypto/subtle"
	"database/sql"
	"database/sql/driver"
	"errors"
	"fmt"
	"regexp"
	"strings"
	"sync/atomic"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/flight"
	"github.com/apache/arrow-go/v18/arrow/flight/flightsql"
	"github.com/apache/arrow-go/v18/arrow/flight/flightsql/example"
	"google.golang.org/grpc"
	"modernc.org/sqlite"
)

// reference is the reference server: arrow-go's example over SQLite. A fault that also occurs on it is the client's.
//
// It adds features that clients need and the example lacks: schemas of prepared statements, sessions, and an ingest
// that counts. A comment in a statement declares its parameters, as in
//
//	select ? /* parameters: date32 */
//
// and `select running()` returns the number of results being sent, without its own.
type reference struct {
	*example.SQLiteFlightSQLServer
	db *sql.DB
}

var (
	parameters     = regexp.MustCompile(`/\* parameters: ([^*]+) \*/`)
	parameterTypes = map[string]arrow.DataType{
		"bool":       arrow.FixedWidthTypes.Boolean,
		"int64":      arrow.PrimitiveTypes.Int64,
		"float64":    arrow.PrimitiveTypes.Float64,
		"utf8":       arrow.BinaryTypes.String,
		"binary":     arrow.BinaryTypes.Binary,
		"decimal":    &arrow.Decimal128Type{Precision: 20, Scale: 2},
		"date32":     arrow.FixedWidthTypes.Date32,
		"date64":     arrow.FixedWidthTypes.Date64,
		"time32":     arrow.FixedWidthTypes.Time32ms,
		"time64":     arrow.FixedWidthTypes.Time64us,
		"timestamp":  &arrow.TimestampType{Unit: arrow.Millisecond},
		"timestamp9": &arrow.TimestampType{Unit: arrow.Nanosecond},
	}
	running atomic.Int64
)

func (r reference) CreatePreparedStatement(ctx context.Context, request flightsql.ActionCreatePreparedStatementRequest) (flightsql.ActionCreatePreparedStatementResult, error) {
	result, err := r.SQLiteFlightSQLServer.CreatePreparedStatement(ctx, request)
	if err != nil {
		return result, err
	}
	var fields []arrow.Field
	if found := parameters.FindStringSubmatch(request.GetQuery()); found != nil {
		for _, name := range strings.Split(found[1], ", ") {
			ty, known := parameterTypes[name]
			if !known {
				return result, fmt.Errorf("no type of parameters: %q", name)
			}
			fields = append(fields, arrow.Field{Name: name, Type: ty, Nullable: true})
		}
		result.ParameterSchema = arrow.NewSchema(fields, nil)
	}
	first, _, _ := strings.Cut(strings.TrimSpace(request.GetQuery()), " ")
	if first = strings.ToLower(first); first == "select" || first == "with" {
		result.DatasetSchema, err = r.columns(ctx, request.GetQuery(), len(fields))
	}
	return result, err
}

// columns returns the schema of a query's rows.
func (r reference) columns(ctx context.Context, query string, parameters int) (*arrow.Schema, error) {
	rows, err := r.db.QueryContext(ctx, query, make([]any, parameters)...)
	if err != nil {
		return nil, err
	}
	reader, err := example.NewSqlBatchReader(r.Alloc, rows)
	if err != nil {
		return nil, err
	}
	defer reader.Release()
	return reader.Schema(), nil
}

func (reference) DoPutCommandStatementIngest(_ context.Context, _ flightsql.StatementIngest, batches flight.MessageReader) (int64, error) {
	var rows int64
	for batches.Next() {
		rows += batches.RecordBatch().NumRows()
	}
	return rows, batches.Err()
}

func (reference) SetSessionOptions(context.Context, *flight.SetSessionOptionsRequest) (*flight.SetSessionOptionsResult, error) {
	return &flight.SetSessionOptionsResult{}, nil
}

func (reference) CloseSession(context.Context, *flight.CloseSessionRequest) (*flight.CloseSessionResult, error) {
	return &flight.CloseSessionResult{Status: flight.CloseSessionResultClosed}, nil
}

// guard authenticates one user by password or token.
type guard struct{ user, password, token string }

func same(a, b string) bool { return subtle.ConstantTimeCompare([]byte(a), []byte(b)) == 1 }

func (g guard) Validate(user, password string) (string, error) {
	if !same(user, g.user) || !same(password, g.password) {
		return "", errors.New("wrong user or password")
	}
	return g.token, nil
}

func (g guard) IsValid(token string) (any, error) {
	if !same(token, g.token) {
		return nil, errors.New("wrong token")
	}
	return g.user, nil
}

// counted counts the results being sent.
func counted(service any, stream grpc.ServerStream, info *grpc.StreamServerInfo, handle grpc.StreamHandler) error {
	if strings.HasSuffix(info.FullMethod, "/DoGet") {
		running.Add(1)
		defer running.Add(-1)
	}
	return handle(service, stream)
}

// serveReference serves on a free port of 127.0.0.1, whose URL it prints, until it is stopped. It authenticates the user,
// if one is named.
func serveReference(user, password, token string) error {
	err := sqlite.RegisterScalarFunction("running", 0, func(*sqlite.FunctionContext, []driver.Value) (driver.Value, error) {
		return running.Load() - 1, nil
	})
	if err != nil {
		return err
	}
	db, err := example.CreateDB()
	if err != nil {
		return err
	}
	defer db.Close()
	inner, err := example.NewSQLiteFlightSQLServer(db)
	if err != nil {
		return err
	}
	middleware := []flight.ServerMiddleware{{Stream: counted}}
	if user != "" {
		middleware = append(middleware, flight.CreateServerBasicAuthMiddleware(guard{user, password, token}))
	}
	server := flight.NewServerWithMiddleware(middleware, grpc.MaxRecvMsgSize(64<<20))
	server.RegisterFlightService(flightsql.NewFlightServer(reference{inner, db}))
	if err := server.Init("127.0.0.1:0"); err != nil {
		return err
	}
	fmt.Printf("http://%s\n", server.Addr())
	return server.Serve()
}
