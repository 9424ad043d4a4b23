import static java.util.concurrent.TimeUnit.SECONDS;

import java.io.IOException;
import java.net.Socket;
import java.net.URI;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.Set;
import java.util.TreeMap;
import java.util.TreeSet;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.TimeoutException;
import java.util.logging.Logger;
import java.util.regex.Pattern;
import org.apache.beam.fn.harness.ExternalWorkerService;
import org.apache.beam.sdk.Pipeline;
import org.apache.beam.sdk.PipelineResult;
import org.apache.beam.sdk.PipelineResult.State;
import org.apache.beam.sdk.extensions.python.PythonExternalTransform;
import org.apache.beam.sdk.io.TextIO;
import org.apache.beam.sdk.metrics.Counter;
import org.apache.beam.sdk.metrics.MetricKey;
import org.apache.beam.sdk.metrics.MetricQueryResults;
import org.apache.beam.sdk.metrics.MetricResult;
import org.apache.beam.sdk.metrics.Metrics;
import org.apache.beam.sdk.options.Description;
import org.apache.beam.sdk.options.ExperimentalOptions;
import org.apache.beam.sdk.options.PipelineOptionsFactory;
import org.apache.beam.sdk.options.PortablePipelineOptions;
import org.apache.beam.sdk.options.Validation.Required;
import org.apache.beam.sdk.schemas.Schema;
import org.apache.beam.sdk.schemas.Schema.FieldType;
import org.apache.beam.sdk.transforms.FlatMapElements;
import org.apache.beam.sdk.transforms.MapElements;
import org.apache.beam.sdk.values.PCollection;
import org.apache.beam.sdk.values.Row;
import org.apache.beam.sdk.values.TypeDescriptors;

/** Ranks the drinks of a CSV file of "user,drink" lines, and writes "rank,drink" lines. */
public class TopDrinks {
  /** The places of this pipeline, beside Beam's own options. */
  public interface Options extends PortablePipelineOptions {
    @Description("HOST:PORT of `private-topk expansion-service`")
    @Required
    String getExpansion();

    void setExpansion(String address);

    @Description("The CSV file, without a header")
    @Required
    String getInput();

    void setInput(String path);

    @Description("What the names of the files of the ranking begin with")
    @Required
    String getOutput();

    void setOutput(String path);

    @Description("Parameters of the ranking as JSON, in place of those below")
    Map<String, Object> getParameters();

    void setParameters(Map<String, Object> parameters);

    @Description("Run the pipeline without releasing or writing anything, and print what would be dropped")
    boolean getDryRun();

    void setDryRun(boolean dryRun);

    @Description("Let a dry run end well though some windows or groups have no rows, and would be only noise")
    boolean getAcceptNoise();

    void setAcceptNoise(boolean accept);
  }

  private static final Schema ORDER =
      Schema.builder().addStringField("user").addStringField("item").build();

  // What Beam leaves open after a good job, gRPC tells in 40 lines of SEVERE. A level would not outlive Beam's workers.
  private static final Logger FORGOTTEN_CHANNELS =
      Logger.getLogger("org.apache.beam.vendor.grpc.v1p69p0.io.grpc.internal.ManagedChannelOrphanWrapper");

  private static final Pattern NUMBER = Pattern.compile("external(\\d+)\\W");

  private static final Counter UNREADABLE = Metrics.counter("orders", "operator_only_unreadable_lines");

  // Named as in docs/java.md.
  private static final Map<String, Object> PARAMETERS =
      Map.of(
          "k", 2,
          "epsilon", 10.0,
          "domain", new ArrayList<>(List.of("tea", "cake", "scone", "coffee")),
          "max_items_per_user", 2);

  public static void main(String[] args) throws Exception {
    run(pipeline(args), "the drinks");
  }

  /** Ends with status 1 if the job was not done, or of a dry run if a ranking or a part of it would be only noise. */
  static void run(Pipeline pipeline, Object... rankings) throws Exception {
    var options = pipeline.getOptions().as(Options.class);
    var result = pipeline.run();
    var state = waitFor(result, options.getExpansion());
    System.out.println(state);
    if (state != State.DONE) {
      System.exit(1);
    }
    var metrics = result.metrics().allMetrics();
    var noise = printLosses(metrics, rankings);
    var refused = named(metrics.getCounters(), "operator_only_workers_that_drew", rankings);
    refused.removeAll(named(metrics.getCounters(), "operator_only_workers_with_rows_left", rankings));
    noise.removeAll(refused);
    boolean some = options.getDryRun() && !noise.isEmpty() && !options.getAcceptNoise();
    boolean all = options.getDryRun() && !refused.isEmpty();
    if (all) {
      System.err.println("no row of " + String.join(", ", refused) + " would be ranked: nothing but noise");
    }
    if (some) {
      System.err.println("some of " + String.join(", ", noise) + " would be only noise, as printed: --acceptNoise lets it");
    }
    System.exit(all || some ? 1 : 0); // the worker's server has threads of its own
  }

  /** How a job ended. It is cancelled where the expansion service has ended, which a runner may not tell. */
  static State waitFor(PipelineResult result, String service) throws Exception {
    var end = CompletableFuture.supplyAsync(result::waitUntilFinish);
    var address = URI.create("tcp://" + service);
    while (true) {
      try {
        return end.get(10, SECONDS);
      } catch (TimeoutException running) {
        try {
          new Socket(address.getHost(), address.getPort()).close();
        } catch (IOException gone) {
          System.err.println("the expansion service has ended, and the job cannot: it is cancelled");
          return result.cancel();
        }
      }
    }
  }

  /** The rankings that have a counter. */
  private static Set<String> named(Iterable<MetricResult<Long>> counters, String name, Object... rankings) {
    var found = new TreeSet<String>();
    for (var each : counters) {
      if (each.getName().getName().equals(name)) {
        found.add(ranking(each.getKey(), rankings));
      }
    }
    return found;
  }

  /** The ranking that a metric is of, by the number of its RankRows. */
  private static String ranking(MetricKey key, Object... rankings) {
    var found = NUMBER.matcher(key.stepName());
    if (!found.find()) {
      return "the input";
    }
    int number = Integer.parseInt(found.group(1));
    return number < rankings.length ? rankings[number].toString() : "external" + number; // of a second pipeline
  }

  /**
   * Prints, for the operator only, what was dropped and left, and which windows and groups are only noise. Returns the
   * rankings of these. Some runners have a number twice, of which the larger one counts.
   */
  private static Set<String> printLosses(MetricQueryResults metrics, Object... rankings) {
    var told = new TreeMap<String, Long>();
    for (var each : metrics.getCounters()) {
      String name = each.getName().getName();
      if (name.matches(".*(unreadable|dropped_rows|only_rows_left).*")) {
        String what = name.replace("operator_only_", "").replace("dropped_rows_", "dropped, ").replace('_', ' ');
        told.merge(ranking(each.getKey(), rankings) + ": " + what, each.getAttempted(), Math::max);
      }
    }
    told.forEach((what, rows) -> System.out.println(what + " " + rows));
    var noise = new TreeMap<String, Set<String>>();
    for (var each : metrics.getStringSets()) {
      if (each.getName().getName().endsWith("rankings_of_nothing")) {
        var windows = noise.computeIfAbsent(ranking(each.getKey(), rankings), name -> new TreeSet<>());
        windows.addAll(each.getAttempted().getStringSet());
      }
    }
    noise.forEach((ranking, windows) -> System.out.println(ranking + ": ONLY NOISE in " + windows));
    return noise.keySet();
  }

  /** What was read of a line, if anything: one person's line must not end a job that is paid for. */
  static List<Row> counted(Optional<Row> read) {
    if (read.isEmpty()) {
      UNREADABLE.inc();
    }
    return read.stream().toList();
  }

  static Pipeline empty(String... args) throws Exception {
    FORGOTTEN_CHANNELS.setFilter(record -> false);
    Options options = PipelineOptionsFactory.fromArgs(args).withValidation().as(Options.class);
    // What LOOPBACK does, but earlier: Beam needs the address of Java's workers when it expands RankRows.
    var worker = new ExternalWorkerService(options).start();
    options.setDefaultEnvironmentType("EXTERNAL");
    options.setDefaultEnvironmentConfig(worker.getApiServiceDescriptor().getUrl());
    // Else Prism splits what is being counted, and counts come twice.
    ExperimentalOptions.addExperiment(options.as(ExperimentalOptions.class), "prism_disable_sdf_split");
    return Pipeline.create(options);
  }

  static PythonExternalTransform<PCollection<Row>, PCollection<Row>> rank(
      Options options, Map<String, Object> parameters) {
    var given = new HashMap<>(parameters);
    if (options.getDryRun()) {
      given.put("dry_run", true);
      given.put("exact_counters", true);
    }
    return PythonExternalTransform.<PCollection<Row>, PCollection<Row>>from(
            "private_topk.pipelines.beam_yaml.RankRows", options.getExpansion())
        .withTypeHint(ArrayList.class, FieldType.array(FieldType.STRING))
        .withTypeHint(LinkedHashMap.class, FieldType.map(FieldType.STRING, FieldType.STRING))
        .withKwargs(given);
  }

  /** Writes lines, but of a dry run none, which would take the place of others. */
  static void write(Options options, PCollection<String> lines, String top) {
    if (!options.getDryRun()) {
      lines.apply("Write " + top, TextIO.write().to(top).withNumShards(1));
    }
  }

  static Pipeline pipeline(String... args) throws Exception {
    Pipeline pipeline = empty(args);
    Options options = pipeline.getOptions().as(Options.class);
    PCollection<Row> orders =
        pipeline
            .apply("Read orders", TextIO.read().from(options.getInput()))
            .apply("As rows", FlatMapElements.into(TypeDescriptors.rows()).via(line -> counted(order(line))))
            .setRowSchema(ORDER);
    Map<String, Object> given = options.getParameters();
    PCollection<String> lines =
        orders
            .apply("Rank", rank(options, given == null ? PARAMETERS : given))
            .apply(
                "As lines",
                MapElements.into(TypeDescriptors.strings())
                    .via(row -> row.getInt64("rank") + "," + row.getString("item")));
    write(options, lines, options.getOutput());
    return pipeline;
  }

  private static Optional<Row> order(String line) {
    String[] parts = line.split(",", 2);
    if (parts.length < 2) {
      return Optional.empty();
    }
    return Optional.of(Row.withSchema(ORDER).addValues(parts[0], parts[1]).build());
  }
}
