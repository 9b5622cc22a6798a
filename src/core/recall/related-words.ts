import { wordsIn } from './words.ts';

/**
 * `word:related,related`: what people ask with, and what stands in notes. Written for this program, each pair told once; it holds in both
 * directions. No file beside the program: it can neither be missing nor be damaged.
 */
const PAIRS =
  'parcel:courier,ship,shipment,delivery,package,post spend:budget,cost,price,expense handover:rotate,shift,pager oncall:rotate,duty ' +
  'allergy:nut,nuts,gluten,food snack:nut,gluten husband:wife,partner,spouse ' +
  'recipe:vegetarian,vegan,allergic,allergy,gluten,lactose,diet cook:vegetarian,vegan,allergic,diet ' +
  'absent:away,leave,sick,holiday accounting:bookkeeping,accountant,tax,ledger add:include,append address:street,postcode,zip,location ' +
  'advert:ads,campaign afraid:scared,fear age:old,years agenda:meeting agreement:contract,deal,consent aim:goal,target ' +
  'airport:flight,terminal alarm:alert,pager,notification,monitor,monitoring,wake,clock allergy:allergic,intolerance,intolerant ' +
  'allow:permit,permission,may,allowed alternative:instead,substitute,option analytics:tracking,statistics,metrics ' +
  'android:ios,mobile,app,flutter angry:upset ansible:provision answer:reply,respond,response app:application,program,software ' +
  'appointment:date,meeting,visit approve:approval,accept,sign arrive:arrival,land artifact:build,package association:club back:spine ' +
  'backend:api,server,service backup:copy,snapshot,restore,dump ban:block band:group,music bank:account,iban,savings basket:cart,trolley ' +
  'battery:charge bee:hive,honey,beekeeping beer:brew,brewery begin:beginning,start,commence bicycle:bike,cycle bike:cycle,cycling ' +
  'birthday:born,birth,age block:blocked blood:pressure board:kanban,jira boat:sail,sailing book:reserve,booking,read,novel,author ' +
  'booking:reservation,reserve,booked born:birth boss:manager,lead,supervisor,head,chief branch:git,merge,rebase,main,trunk ' +
  'bread:bake,loaf,sourdough brief:short,concise,summary broken:defect,damaged brother:sister,sibling browser:chrome,firefox,safari ' +
  'bucket:s3,storage,upload bug:issue,defect,problem,error,fault build:compile,bundle,make bump:upgrade,version ' +
  'bus:tram,subway,metro,transport busy:occupied buy:purchase,order,shop,shopping,acquire cache:caching,redis,memcached,ttl ' +
  'calculate:compute,calculation call:phone,ring,telephone camera:photo,lens camp:camping,tent camper:van cancel:cancelled,abort ' +
  'car:vehicle,drive,auto,van cat:kitten,pet,tom catalog:catalogue catalogue:product category:section caterer:catering,food ' +
  'cdn:cloudfront,cache cents:integer,money certificate:cert,ssl,tls,https chair:chairman,head change:update,modify charger:charge,battery ' +
  'charity:donate,donation chart:graph,plot,diagram,figure,dashboard chat:slack,teams,discord,messenger checkout:cart,payment chess:game ' +
  'chicken:hen,egg child:kid,son,daughter,baby choir:sing,rehearsal,singer choose:chose,pick,decide,decision,selected church:service ' +
  'ci:pipeline,build,workflow,jenkins,actions city:town,place,live clean:cleaning,wash,tidy,cleaner climb:climbing,boulder ' +
  'clothes:clothing,wear,shirt cloud:aws,azure,gcp,hosting club:society cluster:kubernetes,k8s,node codebase:repository,monorepo,structure ' +
  'coffee:espresso,cappuccino,cafe,roast,bean colleague:coworker,teammate,team collect:pick,fetch color:colour,paint,theme ' +
  'command:cli,terminal,shell,run commit:message,git commute:train,travel,ride company:firm,employer,business,organization compile:compiler ' +
  'compute:calculation,computed concert:gig,show,performance conference:congress,event,summit confidential:private,secret,gdpr,privacy ' +
  'configuration:config,configure,setting,setup configure:config,setup,setting contact:person,reach container:docker,podman,image,compose ' +
  'contract:deal,terms convention:style,guideline,format convert:conversion,transform,translate cook:cooking,recipe,kitchen couch:sofa ' +
  'count:number,amount country:nation,abroad course:class,lesson,training crash:outage,incident,downtime,failure create:make,generate ' +
  'credential:password,secret,passphrase,key,token,pin,code cron:schedule,scheduled,nightly,job,timer csv:spreadsheet,excel,table ' +
  'currency:chf,euro,dollar,exchange customer:client,buyer,consumer,shopper daily:day dance:dancing dark:theme,mode ' +
  'dashboard:graph,grafana,superset,tableau,panel ' +
  'database:db,sql,postgres,postgresql,mysql,sqlite,mongodb,clickhouse,oracle,mariadb,duckdb,table,row date:day,when daughter:girl ' +
  'day:weekday deadline:due,submit,hand decide:decision,chose,decided decision:decided,chose,rationale default:standard,preset ' +
  'degree:study,graduate,diploma,bachelor,master delay:postpone,moved,late,pushed delete:remove,erase,purge,drop ' +
  'deliver:delivery,ship,shipment,shipping,courier,parcel,package demo:presentation,show,present dentist:teeth,tooth,dental ' +
  'depart:departure,leave dependency:package,library,install deploy:deployment,ship,release,rollout,publish,launch ' +
  'deputy:substitute,stand,replacement,cover design:designer,mockup,figma,layout,style ' +
  'dessert:cake,sweet,recipe,pudding,cook,eat,food,allergic,vegetarian,vegan,gluten,nut,hazelnut development:dev,local,locally,laptop ' +
  'device:gadget,machine,hardware diet:vegetarian,vegan,gluten,allergic,lactose dinner:supper,meal,evening discount:voucher,coupon,rebate ' +
  'disk:drive,storage,ssd,volume dislike:hate,avoid dns:domain,nameserver doc:documentation,docs,wiki,readme ' +
  'doctor:physician,gp,medical,surgeon document:doc,file,paper,wiki dog:puppy,pet domain:url donate:donation download:fetch,pull drill:tool ' +
  'drink:beverage,coffee,tea,wine,beer drive:vehicle,driving due:expire duplicate:twice,double eat:food,meal,diet,dish edit:modify,change ' +
  'editor:ide,vim,neovim,emacs,vscode,zed,intellij electric:battery,charge electricity:power,energy email:mail,inbox,address emergency:urgent ' +
  'emoji:smiley employee:staff,worker,personnel empty:blank,clear encrypt:encryption,cipher,sops,decrypt endpoint:route,api,url,path ' +
  'english:britain environment:env,staging,production,dev error:exception,fault,failure,crash,sentry,rollbar,bugsnag ' +
  'estimate:estimation,points event:party,celebration,occasion,message,signal exam:test,grade excel:spreadsheet,sheet exception:throw,sentry ' +
  'exhibition:gallery,show experiment:test,trial,ab expire:expiry,valid,validity,lifetime,ttl explain:explanation,describe,jargon,clarify ' +
  'export:dump,extract eye:glasses,vision fail:failure,failing,break,broken,error,red,crash family:relative,wife,husband,child,parent ' +
  'farm:field,crop fast:quick,speed,performance,slow,latency father:dad,parent favourite:favorite,prefer,like fear:scared,phobia ' +
  'feature:flag,toggle feed:food,fed field:column,attribute,property file:path film:movie,cinema,series finish:end,complete,close,done ' +
  'firewall:network,port fix:repair,solve,resolve,mend,solution fixture:sample,data flag:switch flaky:unstable,intermittent ' +
  'flat:apartment,home,house flight:plane,fly,airline float:decimal,number fly:plane,airline folder:directory,path,location ' +
  'food:meal,dish,diet,vegetarian,vegan football:soccer forbid:forbidden,prohibit,never,ban,banned,disallow ' +
  'format:formatter,formatting,prettier,biome,black,ruff,gofmt framework:library,stack,fastify,express,django,rails,svelte,react,vue ' +
  'freeze:time,clock friday:weekend fridge:refrigerator friend:buddy,mate frontend:ui,web,storefront,client,interface fuel:petrol,gas,diesel ' +
  'furniture:sofa,table,chair game:play,gaming garage:parking,car garden:plant,yard,vegetable,bed gas:heating gdpr:privacy,data,protection ' +
  'generate:produce german:germany,deutsch,language,answer gift:present,birthday git:repository,repo glasses:lenses goal:target,objective ' +
  'golang:go gps:position,location,coordinate grandmother:grandma,grandfather,grandpa,grandparent grant:funding graphql:rest,api,query ' +
  'guest:visitor guitar:instrument gym:fitness,workout hack:attack,breach hall:venue,room handle:treat,deal,process happy:glad ' +
  'harvest:pick,crop heat:heating,radiator,boiler,warm height:tall,high help:assist,assistance,support hide:hidden hike:hiking,mountain,walk ' +
  'hire:hiring,recruit,recruiter,job hive:colony hobby:spare,leisure,pastime holiday:vacation,leave,pto,off,away homeoffice:remote,home ' +
  'homework:assignment,task horse:riding,stable hospital:clinic host:hosted,hosting,provider,netlify,vercel ' +
  'hotel:accommodation,stay,hostel,airbnb house:home,building husband:wife,spouse,married idle:still,standing,inactive ' +
  'import:ingest,load,sync important:critical,essential incident:outage,postmortem indent:indentation,tab,space index:reindex,search ' +
  'infrastructure:infra,ops,devops,terraform inlaw:brother,sister,groom install:npm,pnpm,yarn,pip,uv,cargo,brew,apt ' +
  'instrument:piano,violin,play insurance:insure,policy,insured,coverage,insurer interface:ui,layout,design intern:trainee,apprentice,student ' +
  'invest:investment,fund,stock,share,etf,broker invite:invitation,guest invoice:bill,receipt,billing item:article,product jira:ticket,linear ' +
  'job:task,schedule,worker,batch,work,position,profession,employer join:joined,start journal:publication js:javascript,node json:yaml,xml ' +
  'keep:retain,retention,store,hold key:lock,door kid:son,daughter,children kiln:pottery,fire kindergarten:daycare,nursery,school ' +
  'kitchen:oven,stove knee:leg,joint knit:knitting,yarn,wool kubernetes:k8s,kubectl,helm,ingress lab:laboratory ' +
  'landlord:owner,rent,tenant,letter language:programming,python,typescript,rust,java,golang,english,french,spanish,translate ' +
  'laptop:computer,machine,notebook,pc,macbook latest:newest,recent,current launch:start,begin,open,release ' +
  'lawyer:attorney,legal,law,solicitor,notary lead:leader,head leave:left,quit length:long lesson:class library:package,module ' +
  'license:licence,licensing,copyright lifetime:duration,valid,last,ttl light:lamp,bulb like:prefer,love,enjoy ' +
  'limit:maximum,max,cap,quota,threshold,ceiling linter:lint,eslint,biome,ruff,formatter live:reside,home,address,move,moved ' +
  'loan:mortgage,credit,debt locally:local,laptop,machine,localhost location:position,place,where lock:door,deadlock log:logging,logs,logfile ' +
  'login:signin,auth,authentication,credential,password,account,access,sign,signing logout:signout,sign luggage:suitcase,bag,baggage ' +
  'lunch:midday,meal,canteen mail:letter,post maintain:maintainer,owner,care manager:management,lead,supervisor map:route,location,navigation ' +
  'marketing:campaign,ads married:wedding,anniversary,marry,spouse marry:wedding,anniversary maximum:max,most,largest,biggest ' +
  'meal:breakfast,supper,dish meat:vegetarian,vegan medicine:pill,medication,tablet,drug,dose,prescription meeting:call,standup,sync,session ' +
  'member:membership memory:ram merge:pull,pr,request message:chat,text,slack migration:migrate,schema milestone:deadline,release ' +
  'minimum:min,least,smallest,lowest minutes:protocol,meeting mock:stub,fake,fixture money:cash,fund,budget,spend,spending,expense ' +
  'monitoring:grafana,prometheus,metrics,dashboard,datadog,observability monthly:month morning:breakfast,early mother:mum,mom,parent ' +
  'move:relocate,moved,moving museum:exhibition music:song,instrument,play must:required,mandatory,obligatory,need neighbor:neighbour ' +
  'nephew:niece network:internet,wifi,lan,vpn new:latest,recent newsletter:mail,subscribe nickname:called,name night:evening,nightly ' +
  'nightly:overnight noon:midday npm:pnpm,yarn,bun number:amount,figure nurse:hospital ocean:sea,atlantic,pacific ' +
  'office:desk,workplace,building,floor old:former,previous order:purchase,request,booking os:linux,macos,windows,ubuntu oven:stove,bake ' +
  'owner:own,responsible,maintainer package:module,npm,pnpm pager:oncall,call,rotation,duty,shift paint:colour,painting ' +
  'paper:article,publication parameter:option,argument,setting parent:mum,dad parking:park partner:girlfriend,boyfriend,wife,husband,spouse ' +
  'passport:id,visa password:passcode,pin patient:clinic,hospital pay:payment,invoice,bill,billing,charge,checkout ' +
  'payment:stripe,adyen,paypal paypal:stripe pdf:document performance:benchmark,latency,throughput,slow permission:right,access,role,may ' +
  'pet:animal,hamster,rabbit petrol:gas phone:mobile,smartphone,iphone,android,telephone,cell,number,contact photo:picture,shoot ' +
  'physio:physiotherapist,therapy piano:keyboard pick:fetch,chose,decided,select picture:image,photograph,pic,screenshot pill:tablet ' +
  'pip:uv,poetry,conda,virtualenv pipeline:build plan:planned,roadmap,schedule plant:flower,grow,sow,seed,tree port:listen,address,socket ' +
  'position:coordinate postgres:postgresql postpone:moved,push pottery:clay,glaze pr:pull,request practice:rehearsal,practise,training ' +
  'prefer:preference,favorite,favour presentation:talk,slides press:media previous:former,earlier ' +
  'price:cost,amount,fee,charge,money,rate,tariff printer:print,scanner priority:important,urgent private:personal ' +
  'problem:trouble,issue,difficulty process:worker,job product:owner,po,article production:prod,live proxy:gateway,nginx,ingress,balancer ' +
  'public:open query:question,search,sql queue:broker,kafka,rabbitmq,nats,topic,message quit:left,resign ' +
  'race:marathon,run,competition,concurrency,thread random:seed rate:limit,throttle,throttling,quota read:reading ' +
  'reason:because,why,rationale recipe:dish,meal,bake,ingredient recycle:recycling,waste reference:code,number refund:reimburse,chargeback ' +
  'registry:npm,package rehearsal:practise,training release:version,publish,ship remote:home,office remove:drop,erase rename:renamed,name ' +
  'rent:lease,tenant repair:mend,broken,mechanic replace:substitute,stand,deputy,cover,fill,switch,migrate reply:respond ' +
  'repository:repo,monorepo research:paper,study reserve:reservation responsible:charge,maintain,lead,owns rest:http,api ' +
  'restaurant:eat,dinner,lunch,food,table,vegetarian,vegan,gluten,allergic restore:recover,recovery retention:delete,expire,expiry,archive ' +
  'review:reviewer,approve,approval reviewer:approval,approver,approve roadmap:milestone rollback:revert,undo,restore room:office,meeting ' +
  'round:rounding,decimal rubbish:trash,bin rule:policy,guideline,convention,regulation run:execute,start,launch,invoke,running,jog,marathon ' +
  's3:storage salary:wage,pay,income,earn salt:salty,sodium sample:specimen save:saving,savings schedule:timetable,calendar,planned ' +
  'schema:table,column,structure,model school:class,teacher score:sheet,music script:job,task,command ' +
  'search:find,lookup,meilisearch,elasticsearch secret:vault,1password,env,token security:secure,safety sell:sale,vend ' +
  'server:host,machine,node,box,instance,vm setting:config,option,preference setup:install,set sew:sewing,fabric share:shared,sharing ' +
  'sheep:goat,flock shift:night,work shoe:sneaker,boot,size shoot:shooting shop:store,storefront short:concise,terse sick:ill,illness,disease ' +
  'sing:singer,voice,vocal sister:sibling size:big,large,length,megabyte,mb,gb,measure,dimension,height,width ski:skiing,snow sleep:night,bed ' +
  'slow:slowly,sluggish,latency snack:eat,food,allergic social:twitter,instagram solar:panel son:boy sow:seed spam:abuse ' +
  'speed:velocity,rate,pace sponsor:funding,grant sport:training,gym,fitness,exercise sprint:iteration,scrum ssh:remote,login ' +
  'stack:technology,tech stage:theatre staging:stage,preview,test standup:daily,scrum start:boot,spin stay:remain ' +
  'stop:end,finish,halt,quit,shut store:persist,save,storage stream:sse,websocket,socket student:pupil,learner studio:workshop ' +
  'study:university,studied,learn style:format,formatting submit:hand,deliver,send,file subscription:subscribe,plan substitute:instead ' +
  'sugar:sweet summary:summarize,summarise,recap supplier:vendor,provider,manufacturer support:helpdesk surname:name swim:swimming,pool ' +
  'sync:synchronize,synchronise,replicate table:column talk:speech,lecture tax:vat teacher:class,tutor,lecturer team:group,crew,department ' +
  'temperature:degrees,heat,warm,cold terminal:shell,console,bash,zsh,cli terraform:iac test:spec,testing,unittest,jest,vitest,pytest,suite ' +
  'theatre:theater,play theme:light therapy:therapist thesis:dissertation thread:process,worker ticket:reservation,entry,issue,story ' +
  'time:clock,hour,utc timeout:deadline,limit,wait timezone:utc,zone,time tired:exhausted toggle:flag,switch tonight:evening ' +
  'tool:equipment,device,gear trace:tracing,telemetry tractor:farm train:rail,railway training:workout,exercise,plan transaction:rollback ' +
  'trash:garbage,waste,bin travel:trip,journey,holiday,flight treasurer:money,finance trip:journey,tour,vacation twice:double ' +
  'typescript:javascript,ts,js university:college,degree,campus update:upgrade,bump upgrade:version upload:uploads,file,attach urgent:asap ' +
  'url:link,address,href user:customer,member,person,people vacation:travel valid:validity,last van:vehicle,truck variable:env,environment ' +
  'venue:location,place verbose:long,detailed,wordy vet:veterinarian,animal visible:public visit:visitor volunteer:charity vote:election ' +
  'vpn:remote wake:sleep,morning want:wish,prefer warehouse:stock,inventory,storage,depot washing:laundry water:tap ' +
  'weather:rain,forecast,temperature webhook:callback,hook website:site,page,web,homepage websocket:socket,ws wedding:marriage,bride,groom ' +
  'weekend:saturday,sunday weekly:week weight:weigh,heavy,kilo why:because,since wife:spouse,married wifi:wlan,internet,router ' +
  'wiki:confluence,notion,documentation wine:vineyard,grape wood:timber,carpenter work:employer,profession,company workshop:course ' +
  'worry:concern write:author,compose yearly:annual,annually,year zone:area,region,geofence ';

const NONE: readonly string[] = [];
let known: ReadonlyMap<string, readonly string[]> | undefined;

/** Stems of words that are said in place of this one, or close to it; none for most. */
export function relatedTo(stem: string): readonly string[] {
  known ??= read(PAIRS);
  return known.get(stem) ?? NONE;
}

function read(pairs: string): Map<string, string[]> {
  const related = new Map<string, string[]>();
  const relate = (one: string, other: string): void => {
    const others = related.get(one) ?? [];
    if (one !== other && !others.includes(other)) related.set(one, [...others, other]);
  };
  for (const entry of pairs.trim().split(/\s+/)) {
    const [head, ...others] = entry.split(/[:,]/).map((word) => wordsIn(word)[0]!.stem);
    for (const other of others) {
      relate(head!, other);
      relate(other, head!);
    }
  }
  return related;
}
