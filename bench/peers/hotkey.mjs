// The scenario of bench/hotkey.cpp with node-redlock: the same options, the same measures, one line
// of JSON.
//
//   node hotkey.mjs --ports P,P,... [--processes 1] [--coroutines 1000] [--hold-ms 0] [--seconds 5]
//                   [--ttl-ms 10000] [--retry-delay 200] [--retry-jitter 100] [--single-tries 0]
//
// --single-tries 1: the retries are ours and not node-redlock's (retryCount 0), with the same
// pauses. Its own keep the votes of a try that failed until their ttl, so that contenders lock each
// other out; a whole acquire that fails gives them back.
//
// acquisitions_per_s, handovers and min_share count what began before the time was up. The run does
// not wait for acquires that still wait then, as that may take many ttls: max_wait_ms counts them
// as far as they have come.
import { fork } from "node:child_process";
import { fileURLToPath } from "node:url";
import { setTimeout as sleep } from "node:timers/promises";
import { Redis } from "ioredis";
import Redlock, { ExecutionError } from "redlock";

const lead_ms = 200; // from the go signal to the start
const start_patience_ms = 30_000;
const end_patience_ms = 30_000;

// CLOCK_MONOTONIC in nanoseconds, the same in every process; exact for the first 104 days after
// boot.
const now = () => Number(process.hrtime.bigint());

function parse(words) {
    const options = {
        ports: "",
        processes: 1,
        coroutines: 1000,
        "hold-ms": 0,
        seconds: 5,
        "ttl-ms": 10_000,
        "retry-delay": 200,
        "retry-jitter": 100,
        "single-tries": 0,
    };
    for (let i = 0; i < words.length; i += 2) {
        const name = words[i].replace(/^--/, "");
        if (!(name in options) || i + 1 === words.length) throw new Error(`what is ${words[i]}?`);
        options[name] = name === "ports" ? words[i + 1] : Number(words[i + 1]);
        if (Number.isNaN(options[name]))
            throw new Error(`${words[i]}: "${words[i + 1]}" is not a number`);
    }
    if (options.ports === "") throw new Error("--ports is needed");
    return options;
}

function connect(options) {
    return options.ports.split(",").map((port) => {
        const instance = new Redis({ host: "127.0.0.1", port: Number(port), lazyConnect: true });
        instance.on("error", () => {}); // the command that fails says so
        return instance;
    });
}

async function work(options, index, key) {
    process.on("disconnect", () => process.exit(1)); // our parent has died
    const instances = connect(options);
    await Promise.all(instances.map((instance) => instance.connect()));
    const redlock = new Redlock(instances, {
        retryCount: options["single-tries"] ? 0 : -1, // -1: for ever
        retryDelay: options["retry-delay"],
        retryJitter: options["retry-jitter"],
    });
    const pause = () =>
        sleep(options["retry-delay"] + (Math.random() * 2 - 1) * options["retry-jitter"]);
    async function acquire() {
        for (;;) {
            try {
                return await redlock.acquire([key], options["ttl-ms"]);
            } catch (error) {
                if (!options["single-tries"] || !(error instanceof ExecutionError)) throw error;
                await pause();
            }
        }
    }
    const give_back = (lock) => redlock.release(lock, { retryCount: 0 });
    for (let i = 0; i < 20; ++i)
        await give_back(await redlock.acquire([`${key}:warm:${index}`], 5000));

    const go = new Promise((resolve) => process.once("message", resolve));
    process.send({ ready: true });
    const start = await go;
    const end = start + options.seconds * 1e9;
    const sections = []; // asked, acquired, left; flat
    const waiting = new Set(); // when those who wait began
    const failures = {};
    let failed = 0;
    const fails = (error) => {
        ++failed;
        failures[error.message] = (failures[error.message] ?? 0) + 1;
    };
    async function coroutine() {
        for (let asked = now(); asked < end; asked = now()) {
            const wait = { asked };
            waiting.add(wait);
            let lock;
            try {
                lock = await acquire();
            } catch (error) {
                fails(error);
                continue;
            } finally {
                waiting.delete(wait);
            }
            const acquired = now();
            if (options["hold-ms"] > 0) await sleep(options["hold-ms"]);
            sections.push(asked, acquired, now());
            await give_back(lock).catch(fails);
        }
    }
    await sleep((start - now()) / 1e6);
    for (let i = 0; i < options.coroutines; ++i) coroutine();
    await sleep((end - now()) / 1e6);
    const unfinished = now();
    let longest_wait = 0;
    for (const { asked } of waiting) longest_wait = Math.max(longest_wait, unfinished - asked);
    process.send({ sections, failed, failures, longest_wait }, () => process.exit(0));
}

// How many commands the clients have sent. What their scripts do is not counted.
async function commands(instances) {
    let sum = 0;
    const infos = await Promise.all(instances.map((instance) => instance.info("commandstats")));
    for (const text of infos)
        for (const [, calls] of text.matchAll(/^cmdstat_(?:eval|evalsha):calls=(\d+)/gm))
            sum += Number(calls);
    return sum;
}

function percentile(sorted, percent) {
    return sorted[Math.max(0, Math.ceil((percent / 100) * sorted.length) - 1)];
}

async function lead(options) {
    const children = [];
    const end_all = () => {
        for (const { child } of children) if (child.exitCode === null) child.kill("SIGKILL");
    };
    const die = (reason) => {
        process.stderr.write(`peers: ${reason}\n`);
        end_all();
        process.exit(1);
    };
    process.on("exit", end_all);
    for (const signal of ["SIGINT", "SIGTERM"]) process.on(signal, () => die(`ended by ${signal}`));
    const limit = start_patience_ms + options.seconds * 1e3 + end_patience_ms;
    setTimeout(() => die("takes too long"), limit).unref();

    const instances = connect(options);
    await Promise.all(instances.map((instance) => instance.connect()));
    // Each run has a key of its own, so that leftovers of a run are not in the way of the next.
    const key = `bench:hotkey:redlock:${process.pid}`;
    for (let i = 0; i < options.processes; ++i) {
        const words = ["worker", String(i), key, JSON.stringify(options)];
        const child = fork(fileURLToPath(import.meta.url), words, { serialization: "advanced" });
        const told = {};
        const worker = { child, result: null };
        worker.ready = new Promise((resolve) => (told.ready = resolve));
        worker.done = new Promise((resolve) => (told.done = resolve));
        child.on("message", (message) => {
            if (message.ready) return told.ready();
            worker.result = message;
            told.done();
        });
        child.on("exit", (code, signal) => {
            if (worker.result === null) die(`process ${i} ended with ${signal ?? code}`);
        });
        child.on("error", (error) => die(error.message));
        children.push(worker);
    }
    await Promise.all(children.map((worker) => worker.ready));
    const before = await commands(instances);
    const start = now() + lead_ms * 1e6;
    const end = start + options.seconds * 1e9;
    for (const { child } of children) child.send(start);
    await sleep((end - now()) / 1e6);
    const sent = (await commands(instances)) - before;
    await Promise.all(children.map((worker) => worker.done));

    let failed = 0;
    let longest_wait = 0;
    const failures = {};
    const visits = [];
    const counts = children.map(({ result }, process_index) => {
        failed += result.failed;
        for (const [error_text, count] of Object.entries(result.failures))
            failures[error_text] = (failures[error_text] ?? 0) + count;
        longest_wait = Math.max(longest_wait, result.longest_wait);
        let own = 0;
        for (let i = 0; i < result.sections.length; i += 3) {
            const [asked, acquired, left] = result.sections.slice(i, i + 3);
            longest_wait = Math.max(longest_wait, acquired - asked);
            visits.push({ acquired, left, process_index });
            if (acquired < end) ++own;
        }
        return own;
    });
    visits.sort((a, b) => a.acquired - b.acquired);
    let violations = 0;
    let all_left = 0;
    const handovers = [];
    visits.forEach((visit, i) => {
        if (visit.acquired < all_left) ++violations;
        all_left = Math.max(all_left, visit.left);
        if (i > 0 && visit.process_index !== visits[i - 1].process_index && visit.acquired < end)
            handovers.push((visit.acquired - visits[i - 1].left) / 1e3);
    });
    handovers.sort((a, b) => a - b);

    const acquired = counts.reduce((sum, own) => sum + own, 0);
    const result = {
        acquisitions_per_s: acquired / options.seconds,
        sections_per_s: acquired / options.seconds,
        commands_per_acquisition: acquired > 0 ? sent / acquired : null,
        commands_per_s: sent / options.seconds,
        max_wait_ms: longest_wait / 1e6,
        failed,
        violations,
    };
    if (options.processes > 1) {
        result.handovers = handovers.length;
        result.min_share =
            acquired > 0 ? (Math.min(...counts) / acquired) * options.processes : null;
    }
    if (handovers.length > 0) {
        result.handover_p50_us = percentile(handovers, 50);
        result.handover_p99_us = percentile(handovers, 99);
    }
    if (failed > 0) result.failures = failures;
    await new Promise((resolve) => process.stdout.write(`${JSON.stringify(result)}\n`, resolve));
    process.exit(0);
}

if (process.argv[2] === "worker") {
    const [index, key, options] = process.argv.slice(3);
    await work(JSON.parse(options), Number(index), key);
} else {
    await lead(parse(process.argv.slice(2)));
}
