import static java.util.stream.Collectors.counting;
import static java.util.stream.Collectors.groupingBy;
import static java.util.stream.Collectors.joining;

import java.nio.file.Files;
import java.nio.file.Path;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.TreeMap;
import java.util.function.Function;
import java.util.regex.Matcher;
import java.util.regex.Pattern;
import org.apache.beam.sdk.Pipeline;
import org.apache.beam.sdk.io.TextIO;
import org.apache.beam.sdk.schemas.Schema;
import org.apache.beam.sdk.transforms.FlatMapElements;
import org.apache.beam.sdk.transforms.MapElements;
import org.apache.beam.sdk.transforms.WithTimestamps;
import org.apache.beam.sdk.values.PCollection;
import org.apache.beam.sdk.values.Row;
import org.apache.beam.sdk.values.TypeDescriptors;
import org.joda.time.DateTime;
import org.joda.time.DateTimeZone;
import org.joda.time.Instant;
import org.joda.time.Interval;

/** Several rankings of "user,drink,time,price" lines, windows by their times; charged.py has the parameters of each. */
public class WeeklyDrinks {
  private static final Schema ORDER =
      Schema.builder()
          .addStringField("user")
          .addStringField("item")
          .addDateTimeField("at")
          .addDoubleField("price")
          .build();

  // A time of another year than these may be none that Beam can hold, which would end the job.
  private static final Pattern LINE = Pattern.compile("([^,]*),([^,]*),(\\d{4}-[^,]*),([^,]*)");

  public static void main(String[] args) throws Exception {
    Pipeline pipeline = pipeline(args);
    var options = pipeline.getOptions().as(TopDrinks.Options.class);
    if (options.getDryRun()) {
      look(options);
    }
    TopDrinks.run(pipeline);
  }

  /** Prints, for the operator only, what becomes of the lines; ends the program where none would be ranked. */
  @SuppressWarnings("unchecked")
  private static void look(TopDrinks.Options options) throws Exception {
    for (var ranking : options.getParameters().entrySet()) {
      var parameters = (Map<String, Object>) ranking.getValue();
      var declared = (Map<String, String>) parameters.get("period");
      var zone = DateTimeZone.forID(declared.getOrDefault("time_zone", "UTC"));
      var period = new Interval(new DateTime(declared.get("from"), zone), new DateTime(declared.get("to"), zone));
      Function<Row, String> fate =
          order ->
              !period.contains(order.getDateTime("at"))
                  ? "outside_the_period"
                  : parameters.get("domain") instanceof List<?> items && !items.contains(order.getString("item"))
                      ? "not_in_domain"
                      : "ranked";
      try (var lines = Files.lines(Path.of(options.getInput()))) {
        var fates =
            lines.collect(groupingBy(line -> order(line).map(fate).orElse("unreadable"), TreeMap::new, counting()));
        System.out.println("lines of " + ranking.getKey() + ": " + fates);
        if (!fates.containsKey("ranked")) {
          System.err.println("no line of " + ranking.getKey() + " would be ranked: it would be noise alone");
          System.exit(1);
        }
      }
    }
  }

  /** One ranking of each entry of --parameters, written to files of its name. */
  static Pipeline pipeline(String... args) throws Exception {
    Pipeline pipeline = TopDrinks.empty(args);
    var options = pipeline.getOptions().as(TopDrinks.Options.class);
    PCollection<Row> orders =
        pipeline
            .apply("Read orders", TextIO.read().from(options.getInput()))
            .apply("As rows", FlatMapElements.into(TypeDescriptors.rows()).via(line -> TopDrinks.counted(order(line))))
            .setRowSchema(ORDER)
            .apply("Times", WithTimestamps.of(row -> row.getDateTime("at").toInstant()));
    for (var ranking : options.getParameters().entrySet()) {
      String name = ranking.getKey();
      @SuppressWarnings("unchecked")
      var parameters = (Map<String, Object>) ranking.getValue();
      orders
          .apply("Rank " + name, TopDrinks.rank(options, parameters))
          .apply("Lines of " + name, MapElements.into(TypeDescriptors.strings()).via(WeeklyDrinks::line))
          .apply("Write " + name, TextIO.write().to(options.getOutput() + "-" + name).withNumShards(1));
    }
    return pipeline;
  }

  private static Optional<Row> order(String line) {
    Matcher found = LINE.matcher(line);
    if (!found.matches()) {
      return Optional.empty();
    }
    try {
      Instant at = Instant.parse(found.group(3));
      double price = Double.parseDouble(found.group(4));
      return Optional.of(Row.withSchema(ORDER).addValues(found.group(1), found.group(2), at, price).build());
    } catch (IllegalArgumentException unreadable) {
      return Optional.empty();
    }
  }

  private static String line(Row row) {
    return row.getValues().stream().map(String::valueOf).collect(joining(","));
  }
}
